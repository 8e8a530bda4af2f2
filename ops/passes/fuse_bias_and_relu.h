// SPDX-License-Identifier: Apache-2.0
//
// FuseBiasAndRelu: a product or convolution adds the bias to its output and applies the Relu that
// follows while the output is still in registers. The output of a layer is as large as its input; a
// separate BiasAdd would read and write it once more.
//
// Backward, if devices have such kernels, the layer's product also writes a mask with a bit for
// each element: whether it is positive. The product in the next layer that computes the gradient of
// these elements applies the mask and sums up the gradient of the bias. A layer then consists of
// three products only: its own, and those of its two gradients.
#ifndef MIRRORFLOW_OPS_PASSES_FUSE_BIAS_AND_RELU_H_
#define MIRRORFLOW_OPS_PASSES_FUSE_BIAS_AND_RELU_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FuseBiasAndRelu final : public Pass {
 public:
  absl::string_view name() const override { return "fuse_bias_and_relu"; }
  Facts needs() const override {
    return kShapesKnown | kShardingsMet | kDtypesFinal | kReadersFree;
  }
  Facts gives() const override { return kLayersFused; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_FUSE_BIAS_AND_RELU_H_
