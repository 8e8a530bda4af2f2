// SPDX-License-Identifier: Apache-2.0
//
// CommonSubexpressions: merges nodes of the same op with equal attributes and inputs.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_COMMON_SUBEXPRESSIONS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_COMMON_SUBEXPRESSIONS_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class CommonSubexpressions final : public Pass {
 public:
  absl::string_view name() const override { return "common_subexpressions"; }
  Facts needs() const override { return kShapesKnown; }
  Facts gives() const override { return kDuplicatesMerged; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_COMMON_SUBEXPRESSIONS_H_
