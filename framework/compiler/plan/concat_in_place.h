// SPDX-License-Identifier: Apache-2.0
//
// ConcatInPlace: stores the inputs of a Concat or Pack as slices of its output, so that the kernels
// that compute the inputs write there and the Concat need not copy them.
//
// The inputs' rows are contiguous in the output if the Concat joins along the first dimension, or
// if all dimensions before have size 1. Any kernel can write such a slice. Otherwise the rows are
// apart, as those of the branches of a network that are concatenated along their channels. Only
// kernels that support a stride between rows can write such a slice (KernelPlan::strides_rows).
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CONCAT_IN_PLACE_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CONCAT_IN_PLACE_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

class ConcatInPlace final : public PlanPass {
 public:
  absl::string_view name() const override { return "concat_in_place"; }
  Facts needs() const override { return kLocal | kVariablesOrdered | kKernelsChosen; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CONCAT_IN_PLACE_H_
