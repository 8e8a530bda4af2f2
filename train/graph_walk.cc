// SPDX-License-Identifier: Apache-2.0
#include "train/graph_walk.h"

#include "absl/strings/numbers.h"

namespace mirrorflow {

Output FindOutput(const Graph& graph, absl::string_view name) {
  const size_t colon = name.rfind(':');
  int index = 0;
  if (colon != absl::string_view::npos && !absl::SimpleAtoi(name.substr(colon + 1), &index)) {
    return Output();
  }
  Node* node = graph.FindNode(name.substr(0, colon));
  const bool found = node != nullptr && index >= 0 && index < node->num_outputs();
  return found ? node->output(index) : Output();
}

std::vector<bool> FindAncestors(const Graph& graph, absl::Span<const Output> outputs) {
  std::vector<bool> ancestors(graph.id_limit());
  std::vector<const Node*> open;
  for (const Output& output : outputs) {
    if (!graph.Owns(output.node) || ancestors[output.node->id()]) continue;
    ancestors[output.node->id()] = true;
    open.push_back(output.node);
  }
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    for (const Output& in : node->inputs()) {
      if (ancestors[in.node->id()]) continue;
      ancestors[in.node->id()] = true;
      open.push_back(in.node);
    }
  }
  return ancestors;
}

}  // namespace mirrorflow
