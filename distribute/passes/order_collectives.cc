// SPDX-License-Identifier: Apache-2.0
#include "distribute/passes/order_collectives.h"

#include <algorithm>

#include "framework/core/status.h"

namespace mirrorflow {

absl::StatusOr<bool> OrderCollectives::Run(Compilation& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  // Ids say little: nodes that passes added have high ones, and the gate of an update (is the loss
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
  // It stays topological, as depth grows along every edge.
  std::stable_sort(c.collectives.begin(), c.collectives.end(),
                   [&](const Node* a, const Node* b) { return depth[a->id()] < depth[b->id()]; });
  for (size_t i = 0; i < c.collectives.size(); ++i) {
    c.graph.SetAttr(c.collectives[i], "_sequence", static_cast<int64_t>(i));
  }
  return !c.collectives.empty();
}

}  // namespace mirrorflow
