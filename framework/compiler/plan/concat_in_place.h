// SPDX-License-Identifier: Apache-2.0
//
// ConcatInPlace: stores the inputs of a Concat or Pack as slices of its output, so that the kernels
// that compute the inputs write there and the Concat need not copy them.
//
// If the Concat joins along the first dimension, or if all dimensions before it have size 1, an
// input is contiguous in the output, and any kernel can write it. Otherwise there are gaps between
// its rows, for example when a network concatenates branches along their channels. Only kernels
// that support a stride between rows can write these (KernelPlan::supports_row_stride).
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
