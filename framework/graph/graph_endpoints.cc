// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/graph_endpoints.h"

#include <string>

#include "absl/container/flat_hash_set.h"

namespace mirrorflow {
namespace {

// Returns, by node id, whether the node has an unknown op or depends on a node that has one.
std::vector<char> CannotRun(const Graph& graph) {
  std::vector<char> cannot(graph.id_limit(), 0);
  std::vector<Node*> pending;
  auto mark = [&](Node* node) {
    if (cannot[node->id()]) return;
    cannot[node->id()] = 1;
    pending.push_back(node);
  };
  for (Node* node : graph.Nodes()) {
    if (node->op().role == OpRole::kUnknown) mark(node);
  }
  while (!pending.empty()) {
    Node* node = pending.back();
    pending.pop_back();
    for (const Use& use : node->uses()) mark(use.user);
  }
  return cannot;
}

}  // namespace

GraphEndpoints FindGraphEndpoints(const Graph& graph) {
  const std::vector<char> cannot_run = CannotRun(graph);
  absl::flat_hash_set<std::string> initial;
  for (const Node* node : graph.Nodes()) {
    if (node->has_attr("_initializer")) initial.insert(node->attr<std::string>("_initializer"));
  }
  GraphEndpoints endpoints;
  for (Node* node : graph.Nodes()) {
    if (node->op().role == OpRole::kUnknown) {
      endpoints.unknown.push_back(node);
    } else if (node->op().role == OpRole::kVariable) {
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
