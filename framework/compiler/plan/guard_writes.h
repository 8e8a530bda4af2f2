// SPDX-License-Identifier: Apache-2.0
//
// GuardWrites: a step whose data are wrong leaves every variable as it was, on every replica. What
// can fail on its data runs before the first write: before a collective that the writes wait for,
// since a rank that has seen the end of one knows that every rank has come to its start. Where the
// program has no such collective, and there are other ranks, a barrier is added behind all others.
// Whether a kernel can fail must not depend on shapes: all ranks must come to the same barrier.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_GUARD_WRITES_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_GUARD_WRITES_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

class GuardWrites final : public PlanStage {
 public:
  absl::string_view name() const override { return "guard_writes"; }
  Facts needs() const override { return kVariablesOrdered | kCollectivesOrdered | kKernelsChosen; }
  Facts gives() const override { return kWritesGuarded; }

 private:
  absl::StatusOr<bool> RunOn(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_GUARD_WRITES_H_
