// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/adagrad.h"

#include "ops/constant.h"
#include "ops/update.h"
#include "train/optimizers/term.h"

namespace mirrorflow {

Adagrad::Adagrad(const Options& o)
    : Optimizer("Adagrad", o.learning_rate,
                {{"initial_accumulator_value", o.initial_accumulator_value, kNotNegative},
                 {"epsilon", o.epsilon, kNotNegative}}),
      options_(o) {}

// Returns, in this order: learning_rate, epsilon.
Optimizer::Shared Adagrad::Prepare(const Scope& scope, Output learning_rate, Output) const {
  return {learning_rate,
          ops::ScalarConst(scope.WithName("epsilon"), learning_rate.dtype(), options_.epsilon)};
}

void Adagrad::Update(VariableUpdate& u, const Shared& shared) const {
  const Variable accumulator = u.Slot("accumulator", options_.initial_accumulator_value);
  u.Add(ops::ResourceApplyAdagradV2(u.write_scope(), u.variable(), accumulator.handle, shared[0],
                                    shared[1], u.gradient(), {.gates = u.gates()}));
}

Adadelta::Adadelta(const Options& o)
    : Optimizer("Adadelta", o.learning_rate,
                {{"rho", o.rho, kFraction}, {"epsilon", o.epsilon, kNotNegative}}),
      options_(o) {}

void Adadelta::Update(VariableUpdate& u, const Shared& shared) const {
  const Variable accumulated_grad = u.Slot("accumulated_grad");
  const Variable accumulated_delta = u.Slot("accumulated_delta_var");
  const Term g = u.ReducedGradient(), deltas = u.term(accumulated_delta.value);
  const Term grads = u.Average(accumulated_grad, options_.rho, Square(g));
  const Term delta = Sqrt(deltas + options_.epsilon) * g / Sqrt(grads + options_.epsilon);
  u.Average(accumulated_delta, options_.rho, Square(delta));
  u.Subtract(u.term(shared[0]) * delta);
}

}  // namespace mirrorflow
