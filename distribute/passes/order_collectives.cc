// SPDX-License-Identifier: Apache-2.0
#include "distribute/passes/order_collectives.h"

#include <algorithm>
#include <utility>

#include "framework/core/status.h"

namespace mirrorflow {

absl::StatusOr<bool> OrderCollectives::Run(Compilation& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  // Do not sort by node id: nodes that passes add have high ids, and an update's gate (is the loss
  // finite?) is built after all gradients.
  std::vector<int> depth(c.graph.id_limit(), 0);
  for (const Node* node : order) {
    int& own = depth[node->id()];
    auto after = [&](const Node* in) { own = std::max(own, depth[in->id()] + 1); };
    for (const Output& in : node->inputs()) after(in.node);
    for (const Node* control : node->control_inputs()) after(control);
  }
  c.collectives.clear();
  for (Node* node : order) {
    if (c.Communicates(*node)) c.collectives.push_back(node);
  }
  // Updates that share a gate have the same depth, although some gradients are ready earlier.
  const auto ready = [&](const Node* node) {
    const bool updates = node->op().role == OpRole::kWrite && !node->op().update_gradient.empty();
    const int gradient = updates ? node->input_index(node->op().update_gradient) : -1;
    return std::make_pair(depth[node->id()],
                          gradient >= 0 ? depth[node->input(gradient).node->id()] : 0);
  };
  // The order stays topological, because depth grows along every edge.
  std::ranges::stable_sort(c.collectives, {}, ready);
  for (size_t i = 0; i < c.collectives.size(); ++i) {
    c.graph.SetAttr(c.collectives[i], "_sequence", static_cast<int64_t>(i));
  }
  return !c.collectives.empty();
}

}  // namespace mirrorflow
