// SPDX-License-Identifier: Apache-2.0
//
// Prune: keeps what the step needs. A fed output of another node than a placeholder becomes a
// placeholder, so what only makes it goes; a placeholder with a default is its input where it is
// not fed. Ops that are not known must be gone then.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_PRUNE_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_PRUNE_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class Prune final : public Pass {
 public:
  absl::string_view name() const override { return "prune"; }
  Facts gives() const override { return kPruned; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_PRUNE_H_
