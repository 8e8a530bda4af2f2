// SPDX-License-Identifier: Apache-2.0
//
// Nodes and tensors of a graph as command lines name them.
#ifndef MIRRORFLOW_TOOLS_GRAPH_NAMES_H_
#define MIRRORFLOW_TOOLS_GRAPH_NAMES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// InvalidArgument with the nearest name as a hint if there is no such node.
absl::StatusOr<Node*> NodeByName(const Graph& graph, absl::string_view name);
// `node` or `node:1`.
absl::StatusOr<Output> OutputByName(const Graph& graph, absl::string_view name);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_GRAPH_NAMES_H_
