// SPDX-License-Identifier: Apache-2.0
//
// How the gradient of one variable is reduced over the replicas, written as a graph (PyTorch's
// communication hooks). MinimizeOptions::reduce replaces the all-reduce that the compiler inserts
// otherwise:
//
//   train = SGD({}).Minimize(scope, loss, {.reduce = [](GradientReduction& r) {
//     const Output narrow = ops::Cast(r.scope(), ops::LocalPart(r.scope(), r.gradient()),
//                                     DT_BFLOAT16);
//     return ops::Cast(r.scope(), ops::AllReduce(r.scope(), narrow), DT_FLOAT);
//   }});
//
// train/optimizers/communication_hooks.h has such functions.
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_GRADIENT_REDUCTION_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_GRADIENT_REDUCTION_H_

#include <functional>
#include <vector>

#include "framework/graph/scope.h"
#include "train/variable.h"

namespace mirrorflow {

class GradientReduction {
 public:
  // `gate`: a bool scalar, or invalid. If it is false, the step changes no state.
  GradientReduction(const Scope& scope, Output gradient, Output variable, Output gate)
      : scope_(scope), gradient_(gradient), variable_(variable), gate_(gate) {}

  // Has the name of the variable.
  const Scope& scope() const { return scope_; }
  // The gradient of the mean loss of the global batch, a partial sum: the replicas' parts add up to
  // it. One replica has the whole.
  const Output& gradient() const { return gradient_; }
  // The handle of the variable, and what it holds.
  const Output& variable() const { return variable_; }
  const Shape& shape() const;
  DataType dtype() const;

  // Creates a variable that carries a value to the next step. It is part of the optimizer's state.
  // With kOnRead, each replica has its own value, and they are parts of a sum: `value` is that sum
  // as a partial value, of which LocalPart returns this replica's value. A checkpoint contains the
  // sum, which replica 0 has after it is loaded, whatever the number of replicas.
  Variable State(absl::string_view name, const Shape& shape, const Initializer& initializer,
                 DataType dtype,
                 VariableSynchronization synchronization = VariableSynchronization::kOnWrite);
  // Makes `next` the value of `state` after the step; at most once for each state. If the gate is
  // false, the value is `before`, which must be the value before the step. Its default is
  // `state.value`. A per-replica `next` needs LocalPart(state.value).
  void Update(const Variable& state, Output next, Output before = Output());

  // The operations that make these updates.
  const std::vector<Operation>& updates() const { return updates_; }

 private:
  const Scope scope_;
  const Output gradient_, variable_, gate_;
  std::vector<Operation> updates_;
};

// Adds the reduction of one gradient to the graph and returns a value that is equal on all
// replicas, of the gradient's dtype and shape.
using GradientReducer = std::function<Output(GradientReduction& r)>;

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_GRADIENT_REDUCTION_H_
