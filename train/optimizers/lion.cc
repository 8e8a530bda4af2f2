// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/lion.h"

#include "train/optimizers/term.h"

namespace mirrorflow {

Lion::Lion(const Options& o)
    : Optimizer("Lion", o.learning_rate,
                {{"beta1", o.beta1, {.min = 0, .max = 1, .without_min = true}},
                 {"beta2", o.beta2, kFraction}}),
      options_(o) {}

void Lion::Update(VariableUpdate& u, const Shared& shared) const {
  const Variable momentum = u.Slot("momentum");
  const double beta1 = options_.beta1;
  const Term g = u.ReducedGradient(), m = u.term(momentum.value);
  u.Average(momentum, options_.beta2, g);
  u.Subtract(u.term(shared[0]) * Sign(beta1 * m + (1 - beta1) * g));
}

}  // namespace mirrorflow
