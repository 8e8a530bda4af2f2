// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/lion.h"

#include "train/numeric_options.h"
#include "train/optimizers/term.h"

namespace mirrorflow {

absl::Status Lion::CheckOptions() const {
  const Options& o = options_;
  return CheckNumbers("Lion", {{"learning_rate", o.learning_rate.value(), kNotNegative},
                               {"beta1", o.beta1, {.least = 0, .most = 1, .without_least = true}},
                               {"beta2", o.beta2, kFraction}});
}

Optimizer::Shared Lion::Prepare(const Scope& scope, Output learning_rate, Output) const {
  return {learning_rate};
}

void Lion::Update(VariableUpdate& u, const Shared& shared) const {
  const Variable momentum = u.Slot("momentum");
  const double beta1 = options_.beta1, beta2 = options_.beta2;
  const Term g = u.ReducedGradient(), m = u.term(momentum.value);
  u.Assign(momentum, beta2 * m + (1 - beta2) * g);
  u.Subtract(u.term(shared[0]) * Sign(beta1 * m + (1 - beta1) * g));
}

}  // namespace mirrorflow
