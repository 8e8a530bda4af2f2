// SPDX-License-Identifier: Apache-2.0
//
// FuseLayerNorm: replaces the ops that TensorFlow and Keras emit for layer normalisation with a
// single LayerNorm op, which reads each row from memory once. The separate ops would read and write
// the activations several times.
#ifndef MIRRORFLOW_OPS_PASSES_FUSE_LAYER_NORM_H_
#define MIRRORFLOW_OPS_PASSES_FUSE_LAYER_NORM_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FuseLayerNorm final : public Pass {
 public:
  absl::string_view name() const override { return "fuse_layer_norm"; }
  Facts needs() const override { return kShapesKnown; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_FUSE_LAYER_NORM_H_
