// SPDX-License-Identifier: Apache-2.0
//
// MixedPrecision: with CompileOptions::compute_dtype = DT_BFLOAT16 or DT_HALF, float products,
// convolutions and attention compute in that type, because GPUs are many times faster in it. So do
// ops that preserve the precision of such results. Everything else remains in float: variables,
// values that are reduced over the replicas, losses, updates. bfloat16 has the range of float, so
// losses need no scaling; with half, they need it (MinimizeOptions::loss_scale). The choice of ops
// follows TensorFlow (auto_mixed_precision_lists.h). Variables are cast when they are used, as in
// Keras's "mixed_bfloat16" and "mixed_float16" and in PyTorch's autocast.
#ifndef MIRRORFLOW_OPS_PASSES_MIXED_PRECISION_H_
#define MIRRORFLOW_OPS_PASSES_MIXED_PRECISION_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class MixedPrecision final : public Pass {
 public:
  absl::string_view name() const override { return "mixed_precision"; }
  Facts needs() const override { return kShapesKnown | kShardingsMet; }
  Facts gives() const override { return kDtypesFinal; }
  // Returns InvalidArgument if compute_dtype is not float, bfloat16 or half.
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_MIXED_PRECISION_H_
