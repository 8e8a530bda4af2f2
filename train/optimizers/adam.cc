// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/adam.h"

#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/select.h"
#include "ops/update.h"
#include "ops/variable.h"
#include "train/numeric_options.h"
#include "train/optimizers/term.h"

namespace mirrorflow {

absl::Status Adam::CheckOptions() const {
  const Options& o = options_;
  return CheckNumbers(name_, {{"learning_rate", o.learning_rate.value(), kNotNegative},
                              {"weight_decay", weight_decay_, kNotNegative},
                              {"beta1", o.beta1, kBelowOne},
                              {"beta2", o.beta2, kBelowOne},
                              {"epsilon", o.epsilon, kNotNegative}});
}

// Order: learning_rate, beta1_power, beta2_power, beta1, beta2, epsilon, the handles of the two
// powers.
Optimizer::Shared Adam::Prepare(const Scope& scope, Output learning_rate, Output) const {
  const DataType dtype = learning_rate.dtype();
  auto power = [&](absl::string_view name, double beta) {
    return CreateOptimizerState(scope, name, {}, initializers::Constant(beta), dtype);
  };
  auto scalar = [&](absl::string_view name, double value) {
    return ops::ScalarConst(scope.WithName(name), dtype, value);
  };
  const Variable beta1_power = power("beta1_power", options_.beta1);
  const Variable beta2_power = power("beta2_power", options_.beta2);
  return {learning_rate,
          beta1_power.value,
          beta2_power.value,
          scalar("beta1", options_.beta1),
          scalar("beta2", options_.beta2),
          scalar("epsilon", options_.epsilon),
          beta1_power.handle,
          beta2_power.handle};
}

void Adam::Update(VariableUpdate& u, const Shared& shared) const {
  const Shared& s = shared;
  const Variable m = u.Slot("m"), v = u.Slot("v");
  if (!options_.amsgrad) {
    u.Add(ops::ResourceApplyAdam(u.write_scope(), u.variable(), m.handle, v.handle,
                                 {s[1], s[2], s[0], s[3], s[4], s[5]}, u.gradient(),
                                 {.gates = u.gates()}));
    return;
  }
  const Variable largest = u.Slot("v_hat");
  const double beta1 = options_.beta1, beta2 = options_.beta2;
  const Term g = u.ReducedGradient();
  const Term next_m = beta1 * u.term(m.value) + (1 - beta1) * g;
  const Term next_v = beta2 * u.term(v.value) + (1 - beta2) * Square(g);
  const Term v_hat = Max(u.term(largest.value), next_v);
  const Term rate = u.term(s[0]) * Sqrt(1 - u.term(s[2])) / (1 - u.term(s[1]));
  u.Assign(m, next_m);
  u.Assign(v, next_v);
  u.Assign(largest, v_hat);
  u.Subtract(rate * next_m / (Sqrt(v_hat) + options_.epsilon));
}

// Multiplies each power by its beta once per step, after all updates have read it, and only if the
// step updates the variables.
Operation Adam::Finish(const Scope& scope, const Shared& shared,
                       absl::Span<const Operation> updates, Output gate) const {
  const Shared& v = shared;
  const Scope after = scope.WithControlDependencies(updates);
  std::vector<Operation> assigns;
  for (int i = 0; i < 2; ++i) {
    Output next = ops::Mul(scope, v[1 + i], v[3 + i]);
    if (gate.valid()) next = ops::SelectV2(scope, gate, next, v[1 + i]);
    assigns.push_back(ops::AssignVariableOp(after, v[6 + i], next));
  }
  return scope.ok() ? ops::Group(scope, assigns) : Operation();
}

}  // namespace mirrorflow
