// SPDX-License-Identifier: Apache-2.0
//
// GuardWrites: makes sure that a step with invalid data leaves every variable unchanged, on every
// replica. Nodes that can fail on their data run before the first write. They also run before a
// collective that the writes wait for: when a collective has finished on one rank, every rank has
// started it. If no collective qualifies and the program runs on several ranks, the pass adds a
// barrier after all other collectives.
//
// Whether a kernel can fail must not depend on shapes, because all ranks must have the same
// barrier.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_GUARD_WRITES_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_GUARD_WRITES_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

class GuardWrites final : public PlanPass {
 public:
  absl::string_view name() const override { return "guard_writes"; }
  Facts needs() const override { return kVariablesOrdered | kCollectivesOrdered | kKernelsChosen; }
  Facts gives() const override { return kWritesGuarded; }
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_GUARD_WRITES_H_
