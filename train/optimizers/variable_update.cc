// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/variable_update.h"

#include "framework/graph/shape_inference.h"
#include "framework/runtime/variable_layout.h"
#include "ops/collectives.h"
#include "ops/constant.h"
#include "ops/select.h"
#include "ops/variable.h"

namespace mirrorflow {

Variable CreateOptimizerState(const Scope& scope, absl::string_view name, const Shape& shape,
                              const Initializer& initializer, DataType dtype,
                              VariableSynchronization synchronization) {
  const Variable state = CreateVariable(scope, name, shape, initializer, dtype,
                                        {.trainable = false, .synchronization = synchronization});
  if (scope.ok()) scope.graph().SetAttr(state.handle.node, kOptimizerStateAttr, true);
  return state;
}

const Shape& VariableUpdate::shape() const {
  return scope_.graph().values().at(gv_.variable).handle_shape;
}

DataType VariableUpdate::dtype() const {
  return scope_.graph().values().at(gv_.variable).handle_dtype;
}

Term VariableUpdate::ReducedGradient() const { return term(ops::AllReduce(scope_, gv_.gradient)); }

Term VariableUpdate::Read() const { return term(ops::ReadVariableOp(write_scope_, gv_.variable)); }

std::vector<Output> VariableUpdate::gates() const {
  return gate_.valid() ? std::vector<Output>{gate_} : std::vector<Output>{};
}

Variable VariableUpdate::Slot(absl::string_view name, double initial) {
  return Slot(name, shape(), initial);
}

Variable VariableUpdate::Slot(absl::string_view name, const Shape& shape, double initial) {
  if (!slots_.has_value()) slots_ = scope_.SubScope(gv_.variable.node->name());
  return CreateOptimizerState(*slots_, name, shape, initializers::Constant(initial), dtype());
}

void VariableUpdate::Assign(const Variable& slot, Output next) {
  if (gate_.valid()) next = ops::SelectV2(scope_, gate_, next, slot.value);
  const Operation assign = ops::AssignVariableOp(scope_, slot.handle, next);
  if (assign.valid()) operations_.push_back(assign);
}

Term VariableUpdate::Average(const Variable& slot, double decay, const Term& value) {
  const Term next = decay * term(slot.value) + (1 - decay) * value;
  Assign(slot, next);
  return next;
}

void VariableUpdate::AssignVariable(Output next) {
  if (gate_.valid()) next = ops::SelectV2(scope_, gate_, next, Read());
  Add(ops::AssignVariableOp(write_scope_, gv_.variable, next));
}

void VariableUpdate::Subtract(Output amount) {
  if (gate_.valid() && amount.valid()) {
    amount = ops::SelectV2(scope_, gate_, amount, ops::ScalarConst(scope_, amount.dtype(), 0));
  }
  Add(ops::AssignSubVariableOp(write_scope_, gv_.variable, amount));
}

void VariableUpdate::Add(Operation update) {
  if (!update.valid()) return;
  operations_.push_back(update);
  write_scope_ = scope_.WithControlDependencies({update});
}

}  // namespace mirrorflow
