// SPDX-License-Identifier: Apache-2.0
//
// ElideAttentionTransposes: removes the transposes around attention. A product writes all of a
// token's heads next to one another, [batch, n, heads, d], but attention takes [batch, heads, n,
// d]. If q, k and v are transposes between these layouts, the pass sets the op's attribute
// `heads_inside`, so that the op reads the products' layout directly. The results are transposed
// back for users that need the original layout, but the usual user is the inverse transpose, which
// is also removed. The gradient op is treated in the same way. Results may round differently,
// because CPU products of non-adjacent rows sum in a different order.
#ifndef MIRRORFLOW_OPS_PASSES_ELIDE_ATTENTION_TRANSPOSES_H_
#define MIRRORFLOW_OPS_PASSES_ELIDE_ATTENTION_TRANSPOSES_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class ElideAttentionTransposes final : public Pass {
 public:
  absl::string_view name() const override { return "elide_attention_transposes"; }
  Facts needs() const override { return kShapesKnown | kReadyToShard; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_ELIDE_ATTENTION_TRANSPOSES_H_
