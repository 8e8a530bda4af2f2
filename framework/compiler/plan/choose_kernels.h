// SPDX-License-Identifier: Apache-2.0
//
// ChooseKernels: creates a kernel for every node that computes, for the node's local shapes.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CHOOSE_KERNELS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CHOOSE_KERNELS_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

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
