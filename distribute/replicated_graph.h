// SPDX-License-Identifier: Apache-2.0
//
// ReplicatedGraph: exports a step of a strategy as a graph for one device, with a copy of the
// step's nodes for each replica and function calls in place of collectives. The graph runs both
// here and in TensorFlow, and computes the same results as the strategy.
#ifndef MIRRORFLOW_DISTRIBUTE_REPLICATED_GRAPH_H_
#define MIRRORFLOW_DISTRIBUTE_REPLICATED_GRAPH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// The step to export, with its feed shapes and the number of replicas.
struct ReplicatedStep {
  std::vector<Output> feeds;
  std::vector<Shape> feed_shapes;  // global
  std::vector<Output> fetches;
  std::vector<Operation> targets = {};
  int num_replicas = 2;
  // Row count of each replica. If empty, rows are split evenly; if a remainder is left, each of the
  // first replicas takes one extra row.
  std::vector<int64_t> replica_rows = {};
};

// Returns the replicated graph of `step`, with all variables of `graph`. Feeds, fetches and targets
// keep their names. Nodes of replica r are named `replica_r/…`; nodes that all replicas share
// (feeds, variables, constants, random numbers, writes, collectives) keep their names.
// Returns Unimplemented, naming the node, for branches and loops, and for a feed that is not output
// 0 of its node.
//
// The nodes that call collectives have ops that are not in the registry, so the returned graph can
// only be written to a file, not run.
absl::StatusOr<Graph> ReplicatedGraph(const Graph& graph, const ReplicatedStep& step);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_REPLICATED_GRAPH_H_
