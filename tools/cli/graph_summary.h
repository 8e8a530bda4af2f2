// SPDX-License-Identifier: Apache-2.0
//
// The graph summary that `mirrorflow inspect` shows first: one row for each layer, with its output
// shape and parameter count.
#ifndef MIRRORFLOW_TOOLS_CLI_GRAPH_SUMMARY_H_
#define MIRRORFLOW_TOOLS_CLI_GRAPH_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "framework/graph/graph.h"

namespace mirrorflow {

struct LayerSummary {
  std::string name;    // the part before the first slash in the names of its nodes
  std::string op;      // of its last node
  std::string output;  // dtype and shape of that node
  int64_t parameters = 0;
};

struct GraphSummary {
  std::vector<std::string> inputs;   // `images float[?,28,28,1]`
  std::vector<LayerSummary> layers;  // in order of creation
  // Element counts of the variables.
  int64_t trainable = 0;
  int64_t optimizer_state = 0;
  int64_t other = 0;  // moving averages
};

// Summarises `graph` by layer. A layer consists of the nodes that depend on a placeholder and whose
// names share their first part (`conv2d/…`). Omits gradients, updates, and the copies made by
// ForInference.
GraphSummary Summarize(const Graph& graph);

// Formats a table of the layers, at most `max_layers` of them, and the totals.
std::string ToString(const GraphSummary& summary, size_t max_layers);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_CLI_GRAPH_SUMMARY_H_
