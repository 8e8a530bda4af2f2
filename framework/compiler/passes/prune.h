// SPDX-License-Identifier: Apache-2.0
//
// Prune: keeps only the nodes that the step needs. If the output of a node other than a placeholder
// is fed, a new placeholder replaces it, so nodes that are needed only to compute it are removed. A
// PlaceholderWithDefault that is not fed is replaced with its input. An unknown op that remains is
// an error.
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
