// SPDX-License-Identifier: Apache-2.0
#include "distribute/passes/count_replicas.h"

#include "framework/core/status.h"
#include "ops/collectives.h"
#include "ops/constant.h"

namespace mirrorflow {
namespace {

absl::StatusOr<bool> ReplaceCounts(Compilation& c, int32_t num_replicas) {
  bool changed = false;
  for (Node* node : c.graph.Nodes()) {
    if (node->op().name != kNumReplicas) continue;
    const Scope scope = c.scope().SubScope(node->name());
    const Output count = ops::Const(scope, Tensor::Scalar<int32_t>(num_replicas));
    MF_RETURN_IF_ERROR(c.graph.status());
    c.ReplaceNode(node, count);
    c.graph.RemoveNode(node);
    changed = true;
  }
  for (const auto& [id, bodies] : c.bodies) {
    for (const auto& body : bodies) {
      MF_ASSIGN_OR_RETURN(const bool body_changed, ReplaceCounts(*body, num_replicas));
      changed |= body_changed;
    }
  }
  return changed;
}

}  // namespace

absl::StatusOr<bool> CountReplicas::Run(Compilation& c) { return ReplaceCounts(c, c.world.size); }

}  // namespace mirrorflow
