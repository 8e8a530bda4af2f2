// SPDX-License-Identifier: Apache-2.0
//
// Finds the variable behind a handle, which may have passed through views (Identity) and loops:
// they do not change handles.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_VARIABLE_HANDLE_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_VARIABLE_HANDLE_H_

#include <string>

#include "absl/status/statusor.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// The node that creates the variable. If `handle` is not a variable's, the node at which the search
// ends.
const Node& VariableOf(const Output& handle);

// `shared_name`, or else the node's name. Handles with the same name refer to the same variable.
// Requires a node of role kVariable.
const std::string& VariableName(const Node& variable);
// The name of the variable behind a handle. InvalidArgument, naming the node that makes the handle,
// if that is not a variable.
absl::StatusOr<std::string> VariableName(const Output& handle);

// True if a handle of the variable called `name` is among the node's inputs.
bool TakesVariable(const Node& node, absl::string_view name);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_VARIABLE_HANDLE_H_
