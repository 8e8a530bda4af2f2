// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/lion.h"

#include "absl/strings/str_cat.h"
#include "train/optimizers/term.h"

namespace mirrorflow {

absl::Status Lion::CheckOptions() const {
  if (options_.beta1 > 0 && options_.beta1 <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Lion: expected 0 < beta1 <= 1, got ", options_.beta1));
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
