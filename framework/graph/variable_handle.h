// SPDX-License-Identifier: Apache-2.0
//
// The variable behind a handle, which may have come through views (Identity) and loops, which leave
// handles what they are.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_VARIABLE_HANDLE_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_VARIABLE_HANDLE_H_

#include <string>

#include "absl/status/statusor.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// The node that makes the variable; where the way ends, if `handle` is none's.
const Node& VariableOf(const Output& handle);

// `shared_name`, else the node's name: two handles of one name are one variable. Requires a node of
// role kVariable.
const std::string& VariableName(const Node& variable);
// The same of a handle; InvalidArgument that names what makes it, if that is no variable.
absl::StatusOr<std::string> VariableName(const Output& handle);

// Whether a handle of the variable called `name` is among the node's inputs.
bool TakesVariable(const Node& node, absl::string_view name);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_VARIABLE_HANDLE_H_
