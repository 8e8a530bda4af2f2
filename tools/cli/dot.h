// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_CLI_DOT_H_
#define MIRRORFLOW_TOOLS_CLI_DOT_H_

#include <string>

#include "framework/graph/graph.h"

namespace mirrorflow {

// Returns the graph in DOT, the language of Graphviz: a box for each node with its op, name and
// shapes, an arrow for each data input and a dashed arrow for each control input.
std::string GraphToDot(const Graph& graph);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_CLI_DOT_H_
