// SPDX-License-Identifier: Apache-2.0
//
// ChooseKernels: creates a kernel for every node that computes, for the node's local shapes.
// CreateKernel creates the kernel of a single node.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CHOOSE_KERNELS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CHOOSE_KERNELS_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

// `row_stride` is KernelContext::row_stride, or 0 for contiguous rows. REQUIRES: PlanState::shapes
// and PlanState::invariants are set.
absl::StatusOr<KernelPlan> CreateKernel(const PlanState& s, const Node& node,
                                        int64_t row_stride = 0);

// Creates the kernel that computes a part of the node. Ignores `part.kernel`.
absl::StatusOr<KernelPlan> CreateKernel(const PlanState& s, const Node& node, int64_t row_stride,
                                        const NodePart& part);

class ChooseKernels final : public PlanPass {
 public:
  absl::string_view name() const override { return "choose_kernels"; }
  // OrderVariables decides which reads must copy; only those need a kernel.
  Facts needs() const override { return kLocal | kVariablesOrdered; }
  Facts gives() const override { return kKernelsChosen; }
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CHOOSE_KERNELS_H_
