// SPDX-License-Identifier: Apache-2.0
//
// SimplifyAlgebra: replaces a value with one that already exists or is cheaper to compute:
// identities, views of views, transposes of transposes, neutral operands. Each rule preserves the
// result bit for bit, including NaN and -0; simplify_algebra.cc explains why.
#ifndef MIRRORFLOW_OPS_PASSES_SIMPLIFY_ALGEBRA_H_
#define MIRRORFLOW_OPS_PASSES_SIMPLIFY_ALGEBRA_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class SimplifyAlgebra final : public Pass {
 public:
  absl::string_view name() const override { return "simplify_algebra"; }
  Facts needs() const override { return kShapesKnown | kListsLowered; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_SIMPLIFY_ALGEBRA_H_
