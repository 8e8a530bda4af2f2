// SPDX-License-Identifier: Apache-2.0
//
// ExpandEinsum: an Einsum of two operands that is a product of matrices becomes one, with the
// transposes and reshapes that it takes (none for the equation of MatMul and its transposes). The
// labels of an operand are those of the batch (both operands and the result have them), those that
// it shares with the result, and those that both operands share and that are summed; each group
// becomes one dimension, as in Solomonik et al., "A massively parallel tensor contraction
// framework" (2014). What is none (a diagonal, a product element by element) stays as it is, but
// for labels that one operand alone has: those are summed first.
#ifndef MIRRORFLOW_OPS_PASSES_EXPAND_EINSUM_H_
#define MIRRORFLOW_OPS_PASSES_EXPAND_EINSUM_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class ExpandEinsum final : public Pass {
 public:
  absl::string_view name() const override { return "expand_einsum"; }
  Facts needs() const override { return kShapesKnown; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_EXPAND_EINSUM_H_
