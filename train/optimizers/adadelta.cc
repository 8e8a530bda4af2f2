// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/adadelta.h"

#include "train/numeric_options.h"
#include "train/optimizers/term.h"

namespace mirrorflow {

absl::Status Adadelta::CheckOptions() const {
  const Options& o = options_;
  return CheckNumbers("Adadelta", {{"learning_rate", o.learning_rate.value(), kNotNegative},
                                   {"rho", o.rho, kFraction},
                                   {"epsilon", o.epsilon, kNotNegative}});
}

Optimizer::Shared Adadelta::Prepare(const Scope& scope, Output learning_rate, Output) const {
  return {learning_rate};
}

void Adadelta::Update(VariableUpdate& u, const Shared& shared) const {
  const Variable accumulated_grad = u.Slot("accumulated_grad");
  const Variable accumulated_delta = u.Slot("accumulated_delta_var");
  const double rho = options_.rho, epsilon = options_.epsilon;
  const Term g = u.ReducedGradient(), deltas = u.term(accumulated_delta.value);
  const Term grads = rho * u.term(accumulated_grad.value) + (1 - rho) * Square(g);
  const Term delta = Sqrt(deltas + epsilon) * g / Sqrt(grads + epsilon);
  u.Assign(accumulated_grad, grads);
  u.Assign(accumulated_delta, rho * deltas + (1 - rho) * Square(delta));
  u.Subtract(u.term(shared[0]) * delta);
}

}  // namespace mirrorflow
