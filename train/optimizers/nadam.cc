// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/nadam.h"

#include "ops/select.h"
#include "ops/variable.h"
#include "train/numeric_options.h"
#include "train/optimizers/term.h"

namespace mirrorflow {

absl::Status Nadam::CheckOptions() const {
  const Options& o = options_;
  return CheckNumbers("Nadam", {{"learning_rate", o.learning_rate.value(), kNotNegative},
                                {"beta1", o.beta1, kBelowOne},
                                {"beta2", o.beta2, kBelowOne},
                                {"epsilon", o.epsilon, kNotNegative}});
}

// Order: learning_rate; the factors of m and of the gradient in m_hat; 1 - beta2^step; the product
// of the factors U before and after the step, and the handle of the variable that keeps it.
Optimizer::Shared Nadam::Prepare(const Scope& scope, Output learning_rate, Output step) const {
  const Variable product =
      CreateOptimizerState(scope, "u_product", {}, initializers::Ones(), learning_rate.dtype());
  auto factor = [&](const Term& t) { return options_.beta1 * (1 - 0.5 * Pow(0.96, t)); };
  const Term t(scope, step), now = factor(t), next = factor(t + 1);
  const Term all = Term(scope, product.value) * now;
  return {learning_rate,         next / (1 - all * next),
          (1 - now) / (1 - all), 1 - Pow(options_.beta2, t),
          product.value,         all,
          product.handle};
}

void Nadam::Update(VariableUpdate& u, const Shared& shared) const {
  const Variable momentum = u.Slot("momentum"), velocity = u.Slot("velocity");
  const double beta1 = options_.beta1, beta2 = options_.beta2;
  const Term g = u.ReducedGradient();
  const Term m = beta1 * u.term(momentum.value) + (1 - beta1) * g;
  const Term v = beta2 * u.term(velocity.value) + (1 - beta2) * Square(g);
  const Term m_hat = u.term(shared[1]) * m + u.term(shared[2]) * g;
  u.Assign(momentum, m);
  u.Assign(velocity, v);
  u.Subtract(u.term(shared[0]) * m_hat / (Sqrt(v / u.term(shared[3])) + options_.epsilon));
}

Operation Nadam::Finish(const Scope& scope, const Shared& shared, absl::Span<const Operation>,
                        Output gate) const {
  Output product = shared[5];
  if (gate.valid()) product = ops::SelectV2(scope, gate, product, shared[4]);
  return ops::AssignVariableOp(scope, shared[6], product);
}

}  // namespace mirrorflow
