// SPDX-License-Identifier: Apache-2.0
//
// FuseAttention: fuses softmax(scale * q · kᵀ + mask) · v into one op, which does not store the
// full weight matrix. A gradient that also uses the weights becomes the gradient op. Attention over
// few keys is not fused: its weights are small and stay in cache, and recomputing them for the
// gradient would take longer than reading them. A constant mask that hides later positions becomes
// the attribute `causal`. The pass runs before shardings are chosen, so the fused op's sharding
// rule applies.
#ifndef MIRRORFLOW_OPS_PASSES_FUSE_ATTENTION_H_
#define MIRRORFLOW_OPS_PASSES_FUSE_ATTENTION_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FuseAttention final : public Pass {
 public:
  // With 64 to 256 keys, training on a CPU is slower with the fused op.
  static constexpr int64_t kMinKeys = 512;

  absl::string_view name() const override { return "fuse_attention"; }
  Facts needs() const override { return kShapesKnown | kDuplicatesMerged; }
  Facts gives() const override { return kReadyToShard; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_FUSE_ATTENTION_H_
