// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/gradient_reduction.h"

#include "framework/graph/shape_inference.h"
#include "framework/runtime/variable_layout.h"
#include "ops/select.h"
#include "ops/variable.h"

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
  const Variable state = CreateVariable(scope_, name, shape, initializer, dtype,
                                        {.trainable = false, .synchronization = synchronization});
  if (scope_.ok()) scope_.graph().SetAttr(state.handle.node, kOptimizerStateAttr, true);
  return state;
}

void GradientReduction::Update(const Variable& state, Output next, Output before) {
  if (!scope_.ok()) return;
  if (!before.valid()) before = state.value;
  if (gate_.valid()) next = ops::SelectV2(scope_, gate_, next, before);
  updates_.push_back(ops::AssignVariableOp(scope_, state.handle, next));
}

}  // namespace mirrorflow
