// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/graph_endpoints.h"

#include <string>

#include "absl/container/flat_hash_set.h"

namespace mirrorflow {

GraphEndpoints FindGraphEndpoints(const Graph& graph) {
  GraphEndpoints endpoints;
  absl::flat_hash_set<std::string> initial;
  for (Node* node : graph.Nodes()) {
    if (node->op().role == OpRole::kUnknown) endpoints.unknown.push_back(node);
    if (node->has_attr("_initializer")) initial.insert(node->attr<std::string>("_initializer"));
  }
  const std::vector<char> cannot_run = Dependents(graph, endpoints.unknown);
  for (Node* node : graph.Nodes()) {
    if (node->op().role == OpRole::kVariable) {
      endpoints.variables.push_back(node);
    } else if (cannot_run[node->id()]) {
      continue;
    } else if (node->op().role == OpRole::kPlaceholder) {
      endpoints.feeds.push_back(node->output(0));
    } else if (node->uses().empty() && !initial.contains(node->name())) {
      if (node->num_outputs() == 0) endpoints.targets.push_back({node});
      for (int i = 0; i < node->num_outputs(); ++i) {
        if (node->output_dtype(i) != DT_RESOURCE) endpoints.fetches.push_back(node->output(i));
      }
    }
  }
  return endpoints;
}

}  // namespace mirrorflow
