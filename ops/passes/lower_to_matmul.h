// SPDX-License-Identifier: Apache-2.0
//
// LowerToMatmul: rewrites sums of products as one matrix product.
//
// An Einsum of two operands becomes a product, with the necessary transposes and reshapes (none for
// the equation of MatMul and its transposes). An operand has three groups of labels: batch labels,
// which both operands and the result have; labels that it shares only with the result; and summed
// labels, which both operands have. Each group becomes one dimension, as in Solomonik et al., "A
// massively parallel tensor contraction framework" (2014). An Einsum that is not a matrix product
// (a diagonal, an element-wise product) is not rewritten, except that labels that only one operand
// has are summed first.
//
// A sum of small products over rows becomes one product over all rows. Such a sum is the gradient
// of a weight that a network unrolled in time uses repeatedly. The result is the same up to
// rounding, but the individual products no longer each need a node and a weight-sized value:
//   AddN(a₁ᵀb₁, …, aₙᵀbₙ) = [a₁; …; aₙ]ᵀ [b₁; …; bₙ], and similarly for BiasAddGrad.
#ifndef MIRRORFLOW_OPS_PASSES_LOWER_TO_MATMUL_H_
#define MIRRORFLOW_OPS_PASSES_LOWER_TO_MATMUL_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class LowerToMatmul final : public Pass {
 public:
  absl::string_view name() const override { return "lower_to_matmul"; }
  Facts needs() const override { return kShapesKnown; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_LOWER_TO_MATMUL_H_
