// SPDX-License-Identifier: Apache-2.0
//
// Finds the variable that a handle refers to, even if the handle has passed through views
// (Identity) and loops, which do not change handles.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_VARIABLE_HANDLE_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_VARIABLE_HANDLE_H_

#include <string>

#include "absl/status/statusor.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// Returns the node that creates the variable. If `handle` does not belong to a variable, returns
// the node where the search ends.
const Node& VariableOf(const Output& handle);

// Returns `shared_name` or, if that is empty, the node's name. Handles with the same name refer to
// the same variable. `variable` must have role kVariable.
const std::string& VariableName(const Node& variable);
// Returns the name of the variable that a handle refers to. InvalidArgument, naming the node that
// creates the handle, if that node is not a variable.
absl::StatusOr<std::string> VariableName(const Output& handle);

// Returns true if a handle of the variable called `name` is among the node's inputs.
bool TakesVariable(const Node& node, absl::string_view name);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_VARIABLE_HANDLE_H_
