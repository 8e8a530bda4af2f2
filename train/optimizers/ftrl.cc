// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/ftrl.h"

#include "ops/clip_by_value.h"
#include "train/optimizers/term.h"

namespace mirrorflow {

Ftrl::Ftrl(const Options& o)
    : Optimizer("Ftrl", o.learning_rate,
                {{"learning_rate_power", o.learning_rate_power, kNotPositive},
                 {"initial_accumulator_value", o.initial_accumulator_value, kNotNegative},
                 {"l1_regularization_strength", o.l1_regularization_strength, kNotNegative},
                 {"l2_regularization_strength", o.l2_regularization_strength, kNotNegative},
                 {"l2_shrinkage_regularization_strength", o.l2_shrinkage_regularization_strength,
                  kNotNegative},
                 {"beta", o.beta, kNotNegative}}),
      options_(o) {}

void Ftrl::Update(VariableUpdate& u, const Shared& shared) const {
  const Options& o = options_;
  const Variable accumulator = u.Slot("accumulator", o.initial_accumulator_value);
  const Variable linear_slot = u.Slot("linear");
  const Term g = u.ReducedGradient(), rate = u.term(shared[0]), variable = u.Read();
  const Term n = u.term(accumulator.value), next_n = n + Square(g);
  auto power = [&](const Term& x) { return Pow(x, -o.learning_rate_power); };
  const Term shrunk = g + 2 * o.l2_shrinkage_regularization_strength * variable;
  const Term linear =
      u.term(linear_slot.value) + shrunk - (power(next_n) - power(n)) / rate * variable;
  const Term l2 = o.l2_regularization_strength + o.beta / (2 * rate);
  const double l1 = o.l1_regularization_strength;
  const Term clamped =
      u.term(ops::ClipByValue(u.scope(), linear, linear.Number(-l1), linear.Number(l1)));
  u.Assign(accumulator, next_n);
  u.Assign(linear_slot, linear);
  u.AssignVariable((clamped - linear) / (power(next_n) / rate + 2 * l2));
}

}  // namespace mirrorflow
