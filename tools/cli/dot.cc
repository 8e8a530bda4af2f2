// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/dot.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {
namespace {

// Only these two characters are special in a quoted string of DOT.
std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}});
}

std::string Shapes(const Graph& graph, const Node& node) {
  std::string text;
  for (int i = 0; i < node.num_outputs(); ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "", DataTypeName(node.output_dtype(i)),
                    graph.values().shape(node.output(i)).ToString());
  }
  return text;
}

}  // namespace

std::string GraphToDot(const Graph& graph) {
  std::string dot = "digraph {\n  node [shape=box]\n";
  for (const Node* node : graph.Nodes()) {
    const std::string name = absl::StrCat("\"", Escaped(node->name()), "\"");
    absl::StrAppend(&dot, "  ", name, " [label=\"", Escaped(node->op().name), "\\n",
                    Escaped(node->name()), "\\n", Shapes(graph, *node), "\"]\n");
    for (const Output& in : node->inputs()) {
      absl::StrAppend(&dot, "  \"", Escaped(in.node->name()), "\" -> ", name, "\n");
    }
    for (const Node* control : node->control_inputs()) {
      absl::StrAppend(&dot, "  \"", Escaped(control->name()), "\" -> ", name, " [style=dashed]\n");
    }
  }
  return dot + "}\n";
}

}  // namespace mirrorflow
