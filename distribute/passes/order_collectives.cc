// SPDX-License-Identifier: Apache-2.0
#include "distribute/passes/order_collectives.h"

#include <algorithm>

#include "framework/core/status.h"

namespace mirrorflow {

absl::StatusOr<bool> OrderCollectives::Run(Compilation& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  // Nodes that passes added have high ids, so the position of a collective itself says little; what
  // counts is when the last of its operands is made.
  std::vector<int> position(c.graph.id_limit(), 0);
  for (size_t i = 0; i < order.size(); ++i) position[order[i]->id()] = static_cast<int>(i);
  std::vector<int> ready(c.graph.id_limit(), 0);
  for (const Node* node : order) {
    int& latest = ready[node->id()];
    auto after = [&](const Node* in) { latest = std::max(latest, ready[in->id()]); };
    for (const Output& in : node->inputs()) after(in.node);
    for (const Node* control : node->control_inputs()) after(control);
    if (node->op().role != OpRole::kCollective) latest = std::max(latest, position[node->id()]);
  }
  c.collectives.clear();
  for (Node* node : order) {
    if (c.Communicates(*node)) c.collectives.push_back(node);
  }
  // `order` is topological and `ready` never shrinks along an edge, so a stable sort by `ready`
  // stays topological.
  std::stable_sort(c.collectives.begin(), c.collectives.end(),
                   [&](const Node* a, const Node* b) { return ready[a->id()] < ready[b->id()]; });
  for (size_t i = 0; i < c.collectives.size(); ++i) {
    c.graph.SetAttr(c.collectives[i], "_sequence", static_cast<int64_t>(i));
  }
  return !c.collectives.empty();
}

}  // namespace mirrorflow
