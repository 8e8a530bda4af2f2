// SPDX-License-Identifier: Apache-2.0
//
// Variables: state that persists across steps. Programs create variables with train/variable.h;
// these are the ops that it builds. A handle names a variable; only control edges order reads and
// writes. A read that is not ordered after a write sees the value from before the step.
#ifndef MIRRORFLOW_OPS_VARIABLE_H_
#define MIRRORFLOW_OPS_VARIABLE_H_

#include <string>

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr absl::string_view kAssignVariable = "AssignVariableOp";
inline constexpr absl::string_view kAssignAddVariable = "AssignAddVariableOp";
inline constexpr absl::string_view kAssignSubVariable = "AssignSubVariableOp";

struct VarHandleOpOptions {
  // `container` and `debug_name` are TensorFlow's attributes; they have no effect.
  std::string container = "";
  // Handles with the same shared name refer to the same variable. If empty, the node's name is
  // used.
  std::string shared_name = "";
  std::string debug_name = "";
};

// VarHandleOp: the handle of a variable of this dtype and shape, which must be fully defined when a
// session is created.
// Gradient: none; the gradient with respect to a variable is taken at its ReadVariableOp.
Output VarHandleOp(const Scope& scope, DataType dtype, const mirrorflow::Shape& shape,
                   const VarHandleOpOptions& options = {});

// ReadVariableOp: the value of the variable, with the variable's dtype and shape. Reading a
// variable that has no value fails the step with FailedPrecondition.
Output ReadVariableOp(const Scope& scope, Output handle);

// VarIsInitializedOp: whether the variable has a value, either from before the step or from a write
// that precedes this op in the graph's order. The answer is determined when the step is compiled;
// if it changes, the step is recompiled. The branch that an If does not take may therefore read a
// variable without a value.
// Returns:  bool, shape [].
// Sharding: replicated.
Output VarIsInitializedOp(const Scope& scope, Output handle);

// AssignVariableOp: variable = value.
// Errors:   InvalidArgument if the value's dtype or shape does not match the variable's.
// Sharding: the value is replicated, also for the two assignments below.
Operation AssignVariableOp(const Scope& scope, Output handle, Output value);

// AssignAddVariableOp: variable += value, element-wise. Does not support bool.
Operation AssignAddVariableOp(const Scope& scope, Output handle, Output value);

// AssignSubVariableOp: variable -= value, element-wise. Does not support bool.
Operation AssignSubVariableOp(const Scope& scope, Output handle, Output value);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_VARIABLE_H_
