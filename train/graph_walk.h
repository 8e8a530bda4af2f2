// SPDX-License-Identifier: Apache-2.0
//
// Queries on a graph that is being built.
#ifndef MIRRORFLOW_TRAIN_GRAPH_WALK_H_
#define MIRRORFLOW_TRAIN_GRAPH_WALK_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// Returns the output that Output::ToString() prints as `name`, or an invalid one if the graph does
// not have it.
Output FindOutput(const Graph& graph, absl::string_view name);

// Returns, by node id, whether the node is needed to compute one of `outputs`. Ignores those that
// the graph does not own.
std::vector<bool> FindAncestors(const Graph& graph, absl::Span<const Output> outputs);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_GRAPH_WALK_H_
