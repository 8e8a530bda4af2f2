// SPDX-License-Identifier: Apache-2.0
//
// SimplifyAlgebra: a value that another node holds already, or makes with less, is taken from
// there: identities, views of views, transposes of transposes, neutral operands. Only what gives
// the same bits is a rule, NaN and -0 included; the table in simplify_algebra.cc says why of each.
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
