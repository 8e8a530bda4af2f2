// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/rmsprop.h"

#include "ops/constant.h"
#include "ops/update.h"
#include "train/optimizers/term.h"

namespace mirrorflow {

RMSProp::RMSProp(const Options& o)
    : Optimizer("RMSProp", o.learning_rate,
                {{"rho", o.rho, kFraction},
                 {"momentum", o.momentum, kFraction},
                 {"epsilon", o.epsilon, kNotNegative}}),
      options_(o) {}

// Returns, in this order: learning_rate, rho, momentum, epsilon.
Optimizer::Shared RMSProp::Prepare(const Scope& scope, Output learning_rate, Output) const {
  auto scalar = [&](absl::string_view name, double value) {
    return ops::ScalarConst(scope.WithName(name), learning_rate.dtype(), value);
  };
  return {learning_rate, scalar("rho", options_.rho), scalar("momentum", options_.momentum),
          scalar("epsilon", options_.epsilon)};
}

void RMSProp::Update(VariableUpdate& u, const Shared& shared) const {
  const Shared& v = shared;
  const Variable rms = u.Slot("rms"), momentum = u.Slot("momentum");
  if (!options_.centered) {
    u.Add(ops::ResourceApplyRMSProp(u.write_scope(), u.variable(), rms.handle, momentum.handle,
                                    v[0], v[1], v[2], v[3], u.gradient(), {.gates = u.gates()}));
    return;
  }
  const Variable mean = u.Slot("mean");
  const Term g = u.ReducedGradient();
  const Term next_rms = u.Average(rms, options_.rho, Square(g));
  const Term next_mean = u.Average(mean, options_.rho, g);
  const Term root = Sqrt(next_rms - Square(next_mean) + options_.epsilon);
  const Term step = options_.momentum * u.term(momentum.value) + u.term(v[0]) * g / root;
  u.Assign(momentum, step);
  u.Subtract(step);
}

}  // namespace mirrorflow
