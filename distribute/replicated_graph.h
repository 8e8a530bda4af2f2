// SPDX-License-Identifier: Apache-2.0
//
// ReplicatedGraphDef: what a strategy does in a step, written out as a graph of one device: a copy
// of the step's nodes for each replica, with calls of functions for collectives. It runs, here and
// in TensorFlow, and gives what the strategy gives.
#ifndef MIRRORFLOW_DISTRIBUTE_REPLICATED_GRAPH_H_
#define MIRRORFLOW_DISTRIBUTE_REPLICATED_GRAPH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

namespace proto {
class GraphDef;
}  // namespace proto

// A step of a graph, for feeds of certain shapes.
struct ReplicatedStep {
  std::vector<Output> feeds;
  std::vector<Shape> feed_shapes;  // global
  std::vector<Output> fetches;
  std::vector<Operation> targets = {};
  int num_replicas = 2;
  // The rows of each replica; empty: as even as possible, the first replicas get one more.
  std::vector<int64_t> replica_rows = {};
};

// The result takes the same feeds, fetches and targets by name as `graph` does, for feeds of these
// shapes, and has all of its variables. What replica r does is called `replica_r/…`; what is one
// for all (feeds, variables, constants, random numbers, writes, collectives) has its own name.
// Unimplemented, naming the node, for branches and loops, and for a feed that is not output 0 of
// its node.
//
// The nodes that call collectives are of no op of the registry: such a graph is for files.
absl::StatusOr<Graph> ReplicatedGraph(const Graph& graph, const ReplicatedStep& step);

// The same in TensorFlow's format; the caller includes framework/graph/graph_def.h.
absl::StatusOr<proto::GraphDef> ReplicatedGraphDef(const Graph& graph, const ReplicatedStep& step);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_REPLICATED_GRAPH_H_
