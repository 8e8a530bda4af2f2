// SPDX-License-Identifier: Apache-2.0
//
// Finds the variable behind a handle, and the strategy in whose scope it was created. The handle
// may have passed through views (Identity) and loops, which do not change handles.
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

// The attribute of a variable's handle that names the strategy in whose scope it was created, such
// as `MirroredStrategy #1`; empty outside of all scopes. The text form of a graph shows it in a
// comment. It is valid only in this process: it is not written to files, and readers drop it. Every
// strategy accepts handles without it.
inline constexpr char kCreationScopeAttr[] = "_creation_scope";

// Assigns all variables that are created on this thread during its lifetime to one strategy
// (Strategy::scope()).
class [[nodiscard]] CreationScope {
 public:
  // `strategy` is a name that no other strategy of this process has.
  explicit CreationScope(std::string strategy);
  ~CreationScope();
  CreationScope(const CreationScope&) = delete;
  CreationScope& operator=(const CreationScope&) = delete;

  // Returns the strategy of the innermost scope on this thread; empty if there is none.
  static const std::string& Current();

 private:
  std::string outer_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_VARIABLE_HANDLE_H_
