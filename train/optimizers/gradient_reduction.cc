// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/gradient_reduction.h"

#include "framework/graph/shape_inference.h"
#include "ops/select.h"
#include "ops/variable.h"
#include "train/optimizers/variable_update.h"

namespace mirrorflow {

const Shape& GradientReduction::shape() const {
  return scope_.graph().values().at(variable_).handle_shape;
}

DataType GradientReduction::dtype() const {
  return scope_.graph().values().at(variable_).handle_dtype;
}

Variable GradientReduction::State(absl::string_view name, const Shape& shape,
                                  const Initializer& initializer, DataType dtype,
                                  VariableSynchronization synchronization) {
  return CreateOptimizerState(scope_, name, shape, initializer, dtype, synchronization);
}

void GradientReduction::Update(const Variable& state, Output next, Output before) {
  if (!scope_.ok()) return;
  if (!before.valid()) before = state.value;
  if (gate_.valid()) next = ops::SelectV2(scope_, gate_, next, before);
  updates_.push_back(ops::AssignVariableOp(scope_, state.handle, next));
}

}  // namespace mirrorflow
