// SPDX-License-Identifier: Apache-2.0
//
// Finds the nodes and tensors of a graph that command lines name.
#ifndef MIRRORFLOW_TOOLS_GRAPH_NAMES_H_
#define MIRRORFLOW_TOOLS_GRAPH_NAMES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// Returns InvalidArgument, with the nearest names as a hint, if there is no such node.
absl::StatusOr<Node*> NodeByName(const Graph& graph, absl::string_view name);
// Finds `node` or `node:1`. Returns InvalidArgument also for a node whose op is unknown.
absl::StatusOr<Output> OutputByName(const Graph& graph, absl::string_view name);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_GRAPH_NAMES_H_
