// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/lamb.h"

#include "ops/binary.h"
#include "ops/select.h"
#include "train/numeric_options.h"
#include "train/optimizers/term.h"

namespace mirrorflow {

absl::Status Lamb::CheckOptions() const {
  const Options& o = options_;
  return CheckNumbers("Lamb", {{"learning_rate", o.learning_rate.value(), kNotNegative},
                               {"beta1", o.beta1, kBelowOne},
                               {"beta2", o.beta2, kBelowOne},
                               {"epsilon", o.epsilon, kNotNegative}});
}

// Order: learning_rate, 1 - beta1^step, 1 - beta2^step.
Optimizer::Shared Lamb::Prepare(const Scope& scope, Output learning_rate, Output step) const {
  const Term t(scope, step);
  return {learning_rate, 1 - Pow(options_.beta1, t), 1 - Pow(options_.beta2, t)};
}

void Lamb::Update(VariableUpdate& u, const Shared& shared) const {
  const Variable momentum = u.Slot("momentum"), velocity = u.Slot("velocity");
  const double beta1 = options_.beta1, beta2 = options_.beta2;
  const Term g = u.ReducedGradient();
  const Term m = beta1 * u.term(momentum.value) + (1 - beta1) * g;
  const Term v = beta2 * u.term(velocity.value) + (1 - beta2) * Square(g);
  const Term update = m / u.term(shared[1]) / (Sqrt(v / u.term(shared[2])) + options_.epsilon);
  const Term variable_norm = Sqrt(SumOf(Square(u.Read())));
  const Term update_norm = Sqrt(SumOf(Square(update)));
  auto is_positive = [&](const Term& x) { return ops::Greater(x.scope(), x, x.Number(0)); };
  const Output has_ratio =
      ops::LogicalAnd(u.scope(), is_positive(variable_norm), is_positive(update_norm));
  const Term ratio = u.term(
      ops::SelectV2(u.scope(), has_ratio, variable_norm / update_norm, update_norm.Number(1)));
  u.Assign(momentum, m);
  u.Assign(velocity, v);
  u.Subtract(ratio * u.term(shared[0]) * update);
}

}  // namespace mirrorflow
