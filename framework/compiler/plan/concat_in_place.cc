// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/concat_in_place.h"

#include <utility>
#include <vector>

#include "framework/compiler/invariants.h"
#include "framework/compiler/plan/choose_kernels.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// Returns whether a kernel computes `value` in each step, for a single use.
bool IsComputedForOneUse(const PlanState& s, const Output& value) {
  const Node& node = *value.node;
  return Computes(node.op()) && s.kernel_plans[node.id()].kernel != nullptr &&
         !s.invariants->IsComputed(node) && s.IsUsedOnce(value);
}

// Replaces the kernel of `node` with one whose rows start `row_stride` bytes apart. Returns false
// if there is none.
absl::StatusOr<bool> SetRowStride(PlanState& s, const Node& node, int64_t row_stride) {
  KernelPlan& kernel = s.kernel_plans[node.id()];
  if (!kernel.supports_row_stride) return false;
  const auto element = static_cast<int64_t>(DataTypeSize(node.output_dtype(0)));
  MF_ASSIGN_OR_RETURN(kernel, CreateKernel(s, node, row_stride / element));
  return true;
}

}  // namespace

absl::StatusOr<bool> ConcatInPlace::Run(PlanState& s) {
  // On a GPU, a slice might not be aligned as its kernels require.
  if (!s.traits.host_memory) return false;
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(s.graph));
  // In reverse order, so that a Concat whose output is itself a slice follows the Concat that
  // contains it.
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& concat = **it;
    if (s.invariants->IsComputed(concat)) continue;
    for (const InputSlice& slice : s.kernel_plans[concat.id()].slices) {
      const Output& value = concat.input(slice.input);
      if (!IsComputedForOneUse(s, value) || s.LocalBytes(value) == 0) continue;
      if (slice.row_stride > 0) {
        if (value.index > 0) continue;
        MF_ASSIGN_OR_RETURN(const bool is_set, SetRowStride(s, *value.node, slice.row_stride));
        if (!is_set) continue;
      }
      s.slices.push_back({&concat, slice});
    }
  }
  return !s.slices.empty();
}

}  // namespace mirrorflow
