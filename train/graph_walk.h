// SPDX-License-Identifier: Apache-2.0
//
// Searches a graph under construction, and copies parts of it with some nodes changed.
#ifndef MIRRORFLOW_TRAIN_GRAPH_WALK_H_
#define MIRRORFLOW_TRAIN_GRAPH_WALK_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

// Returns the output that Output::ToString() prints as `name`, or an invalid one if the graph does
// not have it.
Output FindOutput(const Graph& graph, absl::string_view name);

// Returns, by node id, whether the node is needed to compute one of `outputs`. Ignores those that
// the graph does not own.
std::vector<bool> FindAncestors(const Graph& graph, absl::Span<const Output> outputs);

struct CopyOptions {
  std::string prefix;  // the copies have names that begin with `prefix/`
  // Returns the output that replaces output 0 of the node, or an invalid one.
  std::function<Output(const Node& node)> replacement;
  // Changes the attributes of a copy of a node. Returns whether it has changed any. Null: keeps
  // all.
  std::function<bool(AttrMap& attrs)> change_attrs = nullptr;
};

// Returns `output` with the changes of `options`. Copies only the nodes that differ or that depend
// on a node that does. Returns `output` itself if it depends on no such node.
absl::StatusOr<Output> CopyWithChanges(const Scope& scope, const Output& output,
                                       const CopyOptions& options);
// The same for an operation, or a group of them.
absl::StatusOr<Operation> CopyWithChanges(const Scope& scope, const Operation& operation,
                                          const CopyOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_GRAPH_WALK_H_
