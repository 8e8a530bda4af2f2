// SPDX-License-Identifier: Apache-2.0
//
// FuseEpilogues: makes a product or convolution also do what follows it while its output is still
// in registers or in the cache: it adds the bias, then another value of the same shape, as at the
// end of a residual block, and applies an activation (ops/fused_ops.h). Separate ops would each
// read and write the whole output again. Reshapes in between stay, behind the product. Only what
// the device has a kernel for is fused.
//
// For the backward pass, if the devices have such kernels, the layer's product also writes a mask
// with one bit per element that is set if the element is positive. The next layer's product that
// computes the gradient of these elements applies the mask and sums the bias gradient. A layer then
// consists of only three products: its own and its two gradients'.
#ifndef MIRRORFLOW_OPS_PASSES_FUSE_EPILOGUES_H_
#define MIRRORFLOW_OPS_PASSES_FUSE_EPILOGUES_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FuseEpilogues final : public Pass {
 public:
  absl::string_view name() const override { return "fuse_epilogues"; }
  Facts needs() const override {
    return kShapesKnown | kShardingsMet | kDtypesFinal | kReadersFree;
  }
  Facts gives() const override { return kLayersFused; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_FUSE_EPILOGUES_H_
