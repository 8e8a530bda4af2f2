// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/concat_in_place.h"

#include <utility>
#include <vector>

#include "framework/compiler/invariants.h"
#include "framework/compiler/plan/choose_kernels.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// Returns whether `value` is computed by a kernel in each step, and nothing but one input of one
// node uses it.
bool IsForOneUser(const PlanState& s, const Output& value) {
  const Node& node = *value.node;
  if (!Computes(node.op()) || node.op().has(kView) || IsControlFlow(node.op())) return false;
  if (s.kernel_plans[node.id()].kernel == nullptr || s.invariants->IsComputed(node)) return false;
  int uses = 0;
  for (const Use& use : node.uses()) {
    uses += use.slot != Use::kControl && use.user->input(use.slot) == value;
  }
  return uses == 1 && !s.IsFetched(value);
}

// Makes the kernel of `node` write its rows at `row_stride`, in bytes. Returns false if it cannot.
absl::StatusOr<bool> WritesRowsAt(PlanState& s, const Node& node, int64_t row_stride) {
  const auto element = static_cast<int64_t>(DataTypeSize(node.output_dtype(0)));
  MF_ASSIGN_OR_RETURN(KernelPlan strided, CreateKernel(s, node, row_stride / element));
  if (!strided.strides_rows) return false;
  KernelPlan& kernel = s.kernel_plans[node.id()];
  s.plan->flops += strided.flops - kernel.flops;
  kernel = std::move(strided);
  return true;
}

}  // namespace

absl::StatusOr<bool> ConcatInPlace::Run(PlanState& s) {
  // On a GPU, a slice might not be aligned as its kernels require.
  if (!s.traits.host_memory) return false;
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(s.graph));
  // A Concat whose output is itself a slice comes after the Concat that contains it.
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& concat = **it;
    if (s.invariants->IsComputed(concat)) continue;
    for (const InputSlice& slice : s.kernel_plans[concat.id()].slices) {
      const Output& value = concat.input(slice.input);
      if (!IsForOneUser(s, value) || s.LocalBytes(value) == 0) continue;
      if (slice.row_stride > 0) {
        if (value.index > 0) continue;
        MF_ASSIGN_OR_RETURN(const bool writes, WritesRowsAt(s, *value.node, slice.row_stride));
        if (!writes) continue;
      }
      s.slices.push_back({value, concat.output(0), slice.offset, slice.row_stride});
    }
  }
  return !s.slices.empty();
}

}  // namespace mirrorflow
