// SPDX-License-Identifier: Apache-2.0
//
// MakeProducts: sums of products that are one product of matrices become one.
//
// An Einsum of two operands, with the transposes and reshapes that it takes (none for the equation
// of MatMul and its transposes). The labels of an operand are those of the batch (both operands and
// the result have them), those that it shares with the result, and those that both operands share
// and that are summed; each group becomes one dimension, as in Solomonik et al., "A massively
// parallel tensor contraction framework" (2014). What is none (a diagonal, a product element by
// element) stays as it is, but for labels that one operand alone has: those are summed first.
//
// A sum of small products over rows, as the gradients of a weight are that a network unrolled in
// time uses again and again. One product over the rows of all is the same, to rounding, without a
// node and a value of the weight's size for each:
//   AddN(a₁ᵀb₁, …, aₙᵀbₙ) = [a₁; …; aₙ]ᵀ [b₁; …; bₙ],   and the same of BiasAddGrad.
#ifndef MIRRORFLOW_OPS_PASSES_MAKE_PRODUCTS_H_
#define MIRRORFLOW_OPS_PASSES_MAKE_PRODUCTS_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class MakeProducts final : public Pass {
 public:
  absl::string_view name() const override { return "make_products"; }
  Facts needs() const override { return kShapesKnown; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_MAKE_PRODUCTS_H_
