// SPDX-License-Identifier: Apache-2.0
//
// Finds the feeds, fetches, targets and variables of an arbitrary graph.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_ENDPOINTS_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_ENDPOINTS_H_

#include <vector>

#include "framework/graph/graph.h"

namespace mirrorflow {

struct GraphEndpoints {
  std::vector<Output> feeds;  // all placeholders
  // Unused values, which can be fetched, and unused nodes without outputs, which can be run. Omits
  // nodes that need an unknown op, because they cannot run, and the initial values of variables.
  std::vector<Output> fetches;
  std::vector<Operation> targets;
  std::vector<Node*> variables;  // their handles
  std::vector<Node*> unknown;    // nodes with an unknown op
};

// Returns the endpoints of `graph`, each kind in creation order.
GraphEndpoints FindGraphEndpoints(const Graph& graph);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_ENDPOINTS_H_
