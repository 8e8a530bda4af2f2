// SPDX-License-Identifier: Apache-2.0
//
// MergeRowSums: gradients of a weight that is used again and again, as in a network unrolled in
// time, are a sum of small products aᵀb. Each sums over rows; so one product over the rows of all
// is the same, to rounding, without a node and a value of the weight's size for each:
//   AddN(a₁ᵀb₁, …, aₙᵀbₙ) = [a₁; …; aₙ]ᵀ [b₁; …; bₙ],   and the same of BiasAddGrad.
#ifndef MIRRORFLOW_OPS_PASSES_MERGE_ROW_SUMS_H_
#define MIRRORFLOW_OPS_PASSES_MERGE_ROW_SUMS_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class MergeRowSums final : public Pass {
 public:
  absl::string_view name() const override { return "merge_row_sums"; }
  Facts needs() const override { return kShapesKnown; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_MERGE_ROW_SUMS_H_
