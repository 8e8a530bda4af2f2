// SPDX-License-Identifier: Apache-2.0
#include "tools/graph_names.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/op_registry.h"

namespace mirrorflow {

absl::StatusOr<Node*> NodeByName(const Graph& graph, absl::string_view name) {
  if (Node* node = graph.FindNode(name)) return node;
  std::vector<std::string> names;
  for (const Node* node : graph.Nodes()) names.push_back(node->name());
  const std::string nearest = NearestName(name, names);
  return absl::InvalidArgumentError(
      absl::StrCat("the graph has no node '", name, "'",
                   nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?")));
}

absl::StatusOr<Output> OutputByName(const Graph& graph, absl::string_view name) {
  const size_t colon = name.find(':');
  int index = 0;
  if (colon != absl::string_view::npos && !absl::SimpleAtoi(name.substr(colon + 1), &index)) {
    return absl::InvalidArgumentError("no tensor's name; expected NODE or NODE:OUTPUT");
  }
  MF_ASSIGN_OR_RETURN(Node * node, NodeByName(graph, name.substr(0, colon)));
  if (index >= 0 && index < node->num_outputs()) return node->output(index);
  return absl::InvalidArgumentError(absl::StrCat(node->op().name, "(", node->name(), ") has ",
                                                 node->num_outputs(), " outputs, got output ",
                                                 index));
}

}  // namespace mirrorflow
