// SPDX-License-Identifier: Apache-2.0
//
// FoldBatchNorm: folds what scales and shifts the channels of a product or convolution, such as
// batch normalisation in inference, into its filter and bias.
//
//   (x * filter + bias) * scale + offset = x * (filter * scale) + (bias * scale + offset)
//
// It does so only if the filter and the vectors are invariant (framework/compiler/invariants.h), so
// that the products on the right are computed once, as forms, and not in each step. Results differ
// by the rounding of the filter.
#ifndef MIRRORFLOW_OPS_PASSES_FOLD_BATCH_NORM_H_
#define MIRRORFLOW_OPS_PASSES_FOLD_BATCH_NORM_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FoldBatchNorm final : public Pass {
 public:
  absl::string_view name() const override { return "fold_batch_norm"; }
  Facts needs() const override {
    return kShapesKnown | kShardingsMet | kDtypesFinal | kReadersFree;
  }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_FOLD_BATCH_NORM_H_
