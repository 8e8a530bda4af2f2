// SPDX-License-Identifier: Apache-2.0
//
// Finds the feeds, fetches, targets and variables of an arbitrary graph.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_ENDS_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_ENDS_H_

#include <vector>

#include "framework/graph/graph.h"

namespace mirrorflow {

struct GraphEnds {
  std::vector<Output> feeds;  // all placeholders
  // Unused values, which can be fetched, and unused nodes without outputs, which can be run. Nodes
  // that need an unknown op cannot run and are left out, as are the initial values of variables.
  std::vector<Output> fetches;
  std::vector<Operation> targets;
  std::vector<Node*> variables;  // their handles
};

// All in order of creation.
GraphEnds FindGraphEnds(const Graph& graph);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_ENDS_H_
