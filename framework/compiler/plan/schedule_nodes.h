// SPDX-License-Identifier: Apache-2.0
//
// ScheduleNodes: one order of all nodes of a program, legal for one thread. A collective starts as
// soon as its operands are ready, in the program's order, and what it waits for runs first; what
// depends on it runs only when a later collective is on its way too, or nothing else is left to do,
// so that a rank seldom waits for the others: an update's gate (a finite loss) must not hold up the
// collectives that wait for it, so what the next collective alone waits for runs after the next
// long kernel. What comes after a collective (updates) runs before what does not, which frees
// gradients while they are in the cache.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_SCHEDULE_NODES_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_SCHEDULE_NODES_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

class ScheduleNodes final : public PlanStage {
 public:
  absl::string_view name() const override { return "schedule_nodes"; }
  Facts needs() const override {
    return kVariablesOrdered | kCollectivesOrdered | kKernelsChosen | kWritesGuarded;
  }
  Facts gives() const override { return kScheduled; }

 private:
  absl::StatusOr<bool> RunOn(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_SCHEDULE_NODES_H_
