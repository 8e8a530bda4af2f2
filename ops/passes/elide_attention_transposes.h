// SPDX-License-Identifier: Apache-2.0
//
// ElideAttentionTransposes: removes the transposes around attention. A product writes the rows of
// all heads of a token next to one another, [batch, n, heads, d], and attention takes [batch,
// heads, n, d]. Where q, k and v are such transposes, the op gets the attribute `heads_inside` and
// reads the products' layout directly. Its results are transposed back for the users that need it,
// but the usual user is the inverse transpose, which is removed as well. The gradient op is treated
// in the same way. Results may round differently, because CPU products of non-adjacent rows sum in
// another order.
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
