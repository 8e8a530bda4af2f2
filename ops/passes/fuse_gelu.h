// SPDX-License-Identifier: Apache-2.0
//
// FuseGelu: replaces the ops that TensorFlow and Keras emit for the Gelu activation (with erf, erfc
// or the tanh approximation) with a single Gelu op. The separate ops would read and write the
// activations several times.
#ifndef MIRRORFLOW_OPS_PASSES_FUSE_GELU_H_
#define MIRRORFLOW_OPS_PASSES_FUSE_GELU_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FuseGelu final : public Pass {
 public:
  absl::string_view name() const override { return "fuse_gelu"; }
  Facts needs() const override { return kShapesKnown; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_FUSE_GELU_H_
