// SPDX-License-Identifier: Apache-2.0
//
// ConcatInPlace: stores the inputs of a Concat or Pack as slices of its output. The kernels that
// compute the inputs write directly into the output, and the Concat has nothing to copy.
//
// A slice is contiguous if the Concat is along the first dimension, or if all earlier dimensions
// have size 1. Any kernel can write a contiguous slice. Other slices have gaps between their rows,
// for example when a network concatenates branches along the channels. Only kernels with a row
// stride can write these (KernelPlan::supports_row_stride).
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CONCAT_IN_PLACE_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CONCAT_IN_PLACE_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

class ConcatInPlace final : public PlanPass {
 public:
  absl::string_view name() const override { return "concat_in_place"; }
  Facts needs() const override { return kKernelsChosen; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CONCAT_IN_PLACE_H_
