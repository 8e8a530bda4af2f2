// SPDX-License-Identifier: Apache-2.0
//
// Finding things in a graph that is being built.
#ifndef MIRRORFLOW_TRAIN_GRAPH_WALK_H_
#define MIRRORFLOW_TRAIN_GRAPH_WALK_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// The output that Output::ToString() calls `name`; invalid if the graph has none.
Output FindOutput(const Graph& graph, absl::string_view name);

// Whether each node, by id, is needed to compute `output`.
std::vector<bool> NodesBehind(const Graph& graph, const Output& output);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_GRAPH_WALK_H_
