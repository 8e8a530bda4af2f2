// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/bucket_gradients.h"

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "framework/graph/op_def.h"

namespace mirrorflow {
namespace {

// Returns the first collective output that the search from `start` reaches, or an invalid output.
Output FindCollective(const Compilation& c, const Output& start, int64_t num_elements) {
  std::vector<Output> pending = {start};
  absl::flat_hash_set<Output> seen;
  while (!pending.empty()) {
    const Output value = pending.back();
    pending.pop_back();
    if (!seen.insert(value).second) continue;
    if (c.values().shape(value).num_elements() != num_elements) continue;
    const OpDef& op = value.node->op();
    if (op.role == OpRole::kCollective) return value;
    if (op.has(kElementwise) || op.has(kView)) {
      pending.insert(pending.end(), value.node->inputs().begin(), value.node->inputs().end());
    }
  }
  return Output();
}

}  // namespace

BucketGradients FindBucketGradients(const Compilation& c) {
  BucketGradients found;
  if (c.layout == nullptr) return found;
  absl::flat_hash_set<int> assigned;
  for (const Node* node : c.graph.Nodes()) {
    if (node->op().role != OpRole::kWrite || node->op().update_gradient.empty()) continue;
    if (IsCollective(*node)) continue;  // its gradient is not reduced by a separate collective
    // The op has one gradient per variable; the variables' handles are its first inputs.
    const absl::StatusOr<ArgRange> gradients =
        FindArg(node->op().inputs, node->attrs(), node->op().update_gradient);
    if (!gradients.ok()) continue;
    for (int i = gradients->first; i < gradients->last; ++i) {
      const int v = c.layout->FindHandle(node->input(i - gradients->first));
      if (v < 0 || c.layout->variables()[v].bucket < 0 || assigned.contains(v)) continue;
      const VariableInfo& variable = c.layout->variables()[v];
      const Output reduced = FindCollective(c, node->input(i), variable.shape.num_elements());
      if (!reduced.valid() || reduced.dtype() != variable.dtype) continue;
      // A gradient that updates two variables is assigned to the first one.
      if (found.emplace(reduced, v).second) assigned.insert(v);
    }
  }
  return found;
}

}  // namespace mirrorflow
