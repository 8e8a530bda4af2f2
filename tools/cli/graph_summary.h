// SPDX-License-Identifier: Apache-2.0
//
// The graph summary at the top of `mirrorflow inspect`: one row per layer, with its output shape
// and parameter count.
#ifndef MIRRORFLOW_TOOLS_CLI_GRAPH_SUMMARY_H_
#define MIRRORFLOW_TOOLS_CLI_GRAPH_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "framework/graph/graph.h"

namespace mirrorflow {

struct LayerSummary {
  std::string name;    // the first part of its nodes' names, up to the slash
  std::string op;      // the op of its last node
  std::string output;  // dtype and shape of its last node
  int64_t parameters = 0;
};

struct GraphSummary {
  std::vector<std::string> inputs;   // `images float[?,28,28,1]`
  std::vector<LayerSummary> layers;  // in topological order
  // Element counts of the variables.
  int64_t trainable = 0;
  int64_t optimizer_state = 0;
  int64_t other = 0;  // moving averages
};

// Summarises `graph` by layer. A layer consists of the nodes that depend on a placeholder and have
// the same first part in their name (`conv2d/…`). Omits gradients, updates, and the copies that
// ForInference makes.
GraphSummary Summarize(const Graph& graph);

// Formats a table of at most `max_layers` layers, and the totals.
std::string ToString(const GraphSummary& summary, size_t max_layers);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_CLI_GRAPH_SUMMARY_H_
