// SPDX-License-Identifier: Apache-2.0
//
// GradientReduction: what a communication hook uses to reduce the gradient of one variable over the
// replicas. A communication hook is a function that adds nodes for the reduction to the graph, in
// place of the all-reduce that the compiler inserts by default (MinimizeOptions::reduce). The
// following one rounds gradients to bfloat16 before it adds them up:
//
//   train = SGD({}).Minimize(scope, loss, {.reduce = [](GradientReduction& r) {
//     const Output narrow = ops::Cast(r.scope(), ops::LocalPart(r.scope(), r.gradient()),
//                                     DT_BFLOAT16);
//     return ops::Cast(r.scope(), ops::AllReduce(r.scope(), narrow), DT_FLOAT);
//   }});
//
// train/optimizers/communication_hooks.h has ready-made hooks.
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_GRADIENT_REDUCTION_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_GRADIENT_REDUCTION_H_

#include <functional>
#include <vector>

#include "framework/graph/scope.h"
#include "train/variable.h"

namespace mirrorflow {

class GradientReduction {
 public:
  // `gate` is a bool scalar, or invalid. If it is false in a step, the step changes no state.
  GradientReduction(const Scope& scope, Output gradient, Output variable, Output gate)
      : scope_(scope), gradient_(gradient), variable_(variable), gate_(gate) {}

  // Returns a scope named after the variable.
  const Scope& scope() const { return scope_; }
  // Returns the gradient of the global batch's mean loss, as a partial sum: the replicas' parts add
  // up to it. With one replica, it is the whole gradient.
  const Output& gradient() const { return gradient_; }
  // These functions return the variable's handle, its shape and its dtype.
  const Output& variable() const { return variable_; }
  const Shape& shape() const;
  DataType dtype() const;

  // Creates a variable that carries a value to the next step, as part of the optimizer's state.
  // With kOnRead, each replica stores its own part of a sum: Variable::value is that sum as a
  // partial value, and ops::LocalPart(value) is this replica's part. A checkpoint contains the sum.
  // When the checkpoint is loaded, replica 0 receives the whole sum, regardless of the number of
  // replicas.
  Variable State(absl::string_view name, const Shape& shape, const Initializer& initializer,
                 DataType dtype,
                 VariableSynchronization synchronization = VariableSynchronization::kOnWrite);
  // Makes `next` the value of `state` after the step. Call it at most once for each state. If the
  // gate is false, the value remains `before`, which must be the value before the step and defaults
  // to `state.value`. If `next` is per-replica, pass LocalPart(state.value).
  void Update(const Variable& state, Output next, Output before = Output());

  // Returns the operations that perform the updates.
  const std::vector<Operation>& updates() const { return updates_; }

 private:
  const Scope scope_;
  const Output gradient_, variable_, gate_;
  std::vector<Operation> updates_;
};

// Adds the reduction of one gradient to the graph. Returns a value of the gradient's dtype and
// shape that is equal on all replicas.
using GradientReducer = std::function<Output(GradientReduction& r)>;

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_GRADIENT_REDUCTION_H_
