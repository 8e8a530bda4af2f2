// SPDX-License-Identifier: Apache-2.0
//
// Variables: state that lasts from step to step. A variable is named by its handle; reads and
// writes are ordered by control edges only. A read that is not ordered after a write sees the value
// before the step.
#ifndef MIRRORFLOW_OPS_VARIABLE_H_
#define MIRRORFLOW_OPS_VARIABLE_H_

#include <string>

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterVariable(OpRegistry& ops);

namespace ops {

inline constexpr absl::string_view kAssignVariable = "AssignVariableOp";
inline constexpr absl::string_view kAssignAddVariable = "AssignAddVariableOp";
inline constexpr absl::string_view kAssignSubVariable = "AssignSubVariableOp";

struct VarHandleOpOptions {
  std::string container = "";
  // Two handles with one shared name are one variable; the name of the node if it is empty.
  std::string shared_name = "";
  std::string debug_name = "";
};

// VarHandleOp: the handle of a variable of this dtype and shape.
// Gradient: none; the gradient with respect to a variable is taken at its ReadVariableOp.
Output VarHandleOp(const Scope& scope, DataType dtype, const mirrorflow::Shape& shape,
                   const VarHandleOpOptions& options = {});

// ReadVariableOp: the value of the variable. Its dtype is the handle's.
Output ReadVariableOp(const Scope& scope, Output handle);

// VarIsInitializedOp: whether the variable has a value: from before the step, or by a write that
// the question is ordered after. It is answered when the step is compiled, anew if the answer
// changes, so a branch (If) of the other answer may read what has no value. Returns:  bool, shape
// []. Sharding: replicated.
Output VarIsInitializedOp(const Scope& scope, Output handle);

// AssignVariableOp: variable = value.
// Errors:   InvalidArgument if dtype or shape of the value is not the variable's.
// Sharding: what is written is replicated (so for the other two).
Operation AssignVariableOp(const Scope& scope, Output handle, Output value);

// AssignAddVariableOp: variable += value, element by element. Not for bool.
Operation AssignAddVariableOp(const Scope& scope, Output handle, Output value);

// AssignSubVariableOp: variable -= value, element by element. Not for bool.
Operation AssignSubVariableOp(const Scope& scope, Output handle, Output value);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_VARIABLE_H_
