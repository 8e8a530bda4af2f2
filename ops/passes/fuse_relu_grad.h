// SPDX-License-Identifier: Apache-2.0
//
// FuseReluGrad: the backward pass of a layer with Relu behind its bias. The layer's product also
// writes a bit for each element that is positive; the product that makes the gradient of these
// elements, in the layer after, lets those through and adds up the gradient of the bias. A layer is
// three products then and nothing else: its own, and those of its two gradients.
#ifndef MIRRORFLOW_OPS_PASSES_FUSE_RELU_GRAD_H_
#define MIRRORFLOW_OPS_PASSES_FUSE_RELU_GRAD_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

// Behind FuseBias.
class FuseReluGrad final : public Pass {
 public:
  absl::string_view name() const override { return "fuse_relu_grad"; }
  Facts needs() const override { return kShapesKnown | kReadersFree; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_FUSE_RELU_GRAD_H_
