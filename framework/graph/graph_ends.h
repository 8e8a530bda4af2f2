// SPDX-License-Identifier: Apache-2.0
//
// What a graph from anywhere offers: what goes in, what comes out, what it keeps.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_ENDS_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_ENDS_H_

#include <vector>

#include "framework/graph/graph.h"

namespace mirrorflow {

struct GraphEnds {
  std::vector<Output> feeds;  // all placeholders
  // What nobody uses and what can run, because no op that it needs is unknown: values to be
  // fetched, and nodes without any to be run. Initial values of variables are left out.
  std::vector<Output> fetches;
  std::vector<Operation> targets;
  std::vector<Node*> variables;  // their handles
};

// All in order of creation.
GraphEnds FindGraphEnds(const Graph& graph);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_ENDS_H_
