// SPDX-License-Identifier: Apache-2.0
//
// FuseBiasAndRelu: a product or convolution adds the bias that is added to all of its output, and
// applies the Relu behind it, while that is still in registers. What a layer makes is as large as
// its input; a BiasAdd of its own would read and write it once more.
//
// Backward, where devices have such kernels, the layer's product also writes a bit for each element
// that is positive; the product that makes the gradient of these elements, in the layer after, lets
// those through and adds up the gradient of the bias. A layer is three products then and nothing
// else: its own, and those of its two gradients.
#ifndef MIRRORFLOW_OPS_PASSES_FUSE_BIAS_AND_RELU_H_
#define MIRRORFLOW_OPS_PASSES_FUSE_BIAS_AND_RELU_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FuseBiasAndRelu final : public Pass {
 public:
  absl::string_view name() const override { return "fuse_bias_and_relu"; }
  Facts needs() const override {
    return kShapesKnown | kCollectivesInserted | kDtypesFinal | kReadersFree;
  }
  Facts gives() const override { return kLayersFused; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_FUSE_BIAS_AND_RELU_H_
