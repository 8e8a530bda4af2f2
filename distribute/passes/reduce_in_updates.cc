// SPDX-License-Identifier: Apache-2.0
#include "distribute/passes/reduce_in_updates.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "distribute/collective/collective_ops.h"

namespace mirrorflow {
namespace {

// Returns the input index of `update`'s gradient if the gradient is a sum over the ranks that only
// this update uses. Returns -1 otherwise.
int SummedGradient(const Compilation& c, const Node& update) {
  if (update.op().role != OpRole::kWrite || update.op().update_gradient.empty()) return -1;
  const int input = update.input_index(update.op().update_gradient);
  const Output& gradient = update.input(input);
  const Node& reduce = *gradient.node;
  // Narrower floating-point variables are updated in float32, as a whole instead of in shards.
  const bool in_parts = gradient.dtype() == DT_FLOAT || gradient.dtype() == DT_DOUBLE;
  const bool is_for_this = in_parts && reduce.op().name == kAllReduce && reduce.num_inputs() == 1 &&
                           reduce.attr<std::string>("reduction") == "sum" && c.IsUsedOnce(gradient);
  return is_for_this ? input : -1;
}

// Returns whether `node` writes memory that the replicas share.
bool WritesShared(const Compilation& c, const Node& node) {
  return node.op().role == OpRole::kWrite &&
         std::ranges::any_of(node.inputs(), [&](const Output& in) {
           const int v = in.dtype() == DT_RESOURCE ? c.layout->FindHandle(in) : -1;
           return v >= 0 && c.layout->regions()[c.layout->variables()[v].region].shared;
         });
}

}  // namespace

absl::StatusOr<bool> ReduceInUpdates::Run(Compilation& c) {
  if (!c.world.has_teams || !c.shard || c.is_body) return false;
  std::vector<std::pair<Node*, int>> updates;  // the update and its summed input, or -1
  for (Node* node : c.graph.Nodes()) {
    const int input = SummedGradient(c, *node);
    if (input >= 0 || WritesShared(c, *node)) updates.emplace_back(node, input);
  }
  for (const auto& [update, input] : updates) {
    if (input < 0) {
      c.graph.SetAttr(update, kReductionAttr, std::string(kNoReduction));
      continue;
    }
    Node* reduce = update->input(input).node;
    c.graph.SetAttr(update, kReductionAttr, reduce->attr<std::string>("reduction"));
    for (Node* control : reduce->control_inputs()) c.graph.AddControlEdge(control, update);
    c.graph.SetInput(update, input, reduce->input(0));
    c.graph.RemoveNode(reduce);
  }
  return !updates.empty();
}

}  // namespace mirrorflow
