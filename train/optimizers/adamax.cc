// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/adamax.h"

#include "train/numeric_options.h"
#include "train/optimizers/term.h"

namespace mirrorflow {

absl::Status Adamax::CheckOptions() const {
  const Options& o = options_;
  return CheckNumbers("Adamax", {{"learning_rate", o.learning_rate.value(), kNotNegative},
                                 {"beta1", o.beta1, kBelowOne},
                                 {"beta2", o.beta2, kBelowOne},
                                 {"epsilon", o.epsilon, kNotNegative}});
}

// Order: learning_rate, 1 - beta1^step.
Optimizer::Shared Adamax::Prepare(const Scope& scope, Output learning_rate, Output step) const {
  return {learning_rate, 1 - Pow(options_.beta1, Term(scope, step))};
}

void Adamax::Update(VariableUpdate& u, const Shared& shared) const {
  const Variable momentum = u.Slot("momentum"), norm = u.Slot("norm");
  const Term g = u.ReducedGradient(), rate = u.term(shared[0]), correction = u.term(shared[1]);
  const Term m = options_.beta1 * u.term(momentum.value) + (1 - options_.beta1) * g;
  const Term largest = Max(options_.beta2 * u.term(norm.value), Abs(g));
  u.Assign(momentum, m);
  u.Assign(norm, largest);
  u.Subtract(rate / correction * m / (largest + options_.epsilon));
}

}  // namespace mirrorflow
