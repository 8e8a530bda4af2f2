// SPDX-License-Identifier: Apache-2.0
//
// FuseKerasAdam: replaces the ops of which Keras composes an Adam update with one update of the
// variable and its two slots. Keras' Adam, and AdamW after its weight decay, is
//   m.assign_add((g - m) * (1 - beta_1))
//   v.assign_add((square(g) - v) * (1 - beta_2))
//   variable.assign_sub(m * alpha / (sqrt(v) + epsilon))
// which takes a dozen kernels, each of which reads and writes memory of the size of the variable.
#ifndef MIRRORFLOW_OPS_PASSES_FUSE_KERAS_ADAM_H_
#define MIRRORFLOW_OPS_PASSES_FUSE_KERAS_ADAM_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FuseKerasAdam final : public Pass {
 public:
  absl::string_view name() const override { return "fuse_keras_adam"; }
  Facts needs() const override { return kShapesKnown; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_FUSE_KERAS_ADAM_H_
