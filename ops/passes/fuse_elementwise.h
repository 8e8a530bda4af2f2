// SPDX-License-Identifier: Apache-2.0
//
// FuseElementwise: fuses a tree of element-wise nodes of one shape into one node, so that
// intermediate values stay in registers on a GPU, and in the L1 cache on a CPU. Separate nodes
// spend most of their time reading and writing memory. Cheap nodes with users in several trees
// become part of each.
#ifndef MIRRORFLOW_OPS_PASSES_FUSE_ELEMENTWISE_H_
#define MIRRORFLOW_OPS_PASSES_FUSE_ELEMENTWISE_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FuseElementwise final : public Pass {
 public:
  absl::string_view name() const override { return "fuse_elementwise"; }
  Facts needs() const override { return kShapesKnown | kReadersFree | kLayersFused; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_FUSE_ELEMENTWISE_H_
