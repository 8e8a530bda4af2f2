// SPDX-License-Identifier: Apache-2.0
//
// Searches a graph under construction, and copies parts of it with changes.
#ifndef MIRRORFLOW_TRAIN_GRAPH_WALK_H_
#define MIRRORFLOW_TRAIN_GRAPH_WALK_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "framework/graph/graph.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

// Returns the output whose Output::ToString() is the value of this attribute, or an invalid output
// if the node has no such attribute, or the graph has no such output.
Output OutputFromAttr(const Node& node, const char* attr);

// Returns, for each node id, whether any of `outputs` depends on the node. Ignores outputs that the
// graph does not own.
std::vector<bool> FindAncestors(const Graph& graph, absl::Span<const Output> outputs);

struct CopyOptions {
  std::string prefix;  // the copy of node NAME is named `prefix/NAME`
  // The attribute of nodes whose output 0 is replaced. Its value names the replacement.
  const char* replacement_attr;
  // Modifies the attributes of a node's copy, and returns whether it has modified any. If null, all
  // attributes are kept.
  std::function<bool(AttrMap& attrs)> change_attrs = nullptr;
};

// Returns a copy of `output` with the changes that `options` specifies. Copies only the nodes that
// change and the nodes that depend on them. Returns `output` itself if nothing that it depends on
// changes. Returns an invalid output after an error, which the scope records.
Output CopyWithChanges(const Scope& scope, const Output& output, const CopyOptions& options);
// Like CopyWithChanges above, for an operation or a group of operations.
Operation CopyWithChanges(const Scope& scope, const Operation& operation,
                          const CopyOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_GRAPH_WALK_H_
