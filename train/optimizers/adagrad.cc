// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/adagrad.h"

#include "ops/constant.h"
#include "ops/update.h"

namespace mirrorflow {

// Order: learning_rate, epsilon.
Optimizer::Shared Adagrad::Prepare(const Scope& scope, Output learning_rate, Output) const {
  return {learning_rate,
          ops::ScalarConst(scope.WithName("epsilon"), learning_rate.dtype(), options_.epsilon)};
}

void Adagrad::Update(VariableUpdate& u, const Shared& shared) const {
  const Variable accumulator = u.Slot("accumulator", options_.initial_accumulator_value);
  u.Add(ops::ResourceApplyAdagradV2(u.write_scope(), u.variable(), accumulator.handle, shared[0],
                                    shared[1], u.gradient(), {.gates = u.gates()}));
}

}  // namespace mirrorflow
