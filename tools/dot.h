// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_DOT_H_
#define MIRRORFLOW_TOOLS_DOT_H_

#include <string>

#include "framework/graph/graph.h"

namespace mirrorflow {

// The graph in Graphviz' language: a box a node with its op, name and shapes, an arrow a data
// input, a dashed one a control input.
std::string GraphToDot(const Graph& graph);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_DOT_H_
