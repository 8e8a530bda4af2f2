// SPDX-License-Identifier: Apache-2.0
//
// FuseBias: a product or convolution adds the bias that is added to all of its output, while that
// is still in registers. What a layer makes is as large as its input; a BiasAdd of its own would
// read and write it once more.
#ifndef MIRRORFLOW_OPS_PASSES_FUSE_BIAS_H_
#define MIRRORFLOW_OPS_PASSES_FUSE_BIAS_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FuseBias final : public Pass {
 public:
  absl::string_view name() const override { return "fuse_bias"; }
  Facts needs() const override { return kShapesKnown | kReadersFree; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_FUSE_BIAS_H_
