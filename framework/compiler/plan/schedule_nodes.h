// SPDX-License-Identifier: Apache-2.0
//
// ScheduleNodes: finds an order in which a single thread can run all nodes of a program.
// Collectives start in the program's order, each as soon as its operands are ready; the nodes that
// the next one waits for run first. Nodes that depend on a collective run only once a later
// collective is also in flight, or when no other node is left, so a rank seldom waits for other
// ranks.
//
// Some collectives wait for the gate of an update, which is itself the result of a collective (the
// loss is finite on all ranks). If the next collective waits only for such results, the nodes in
// between run after the next long kernel, so that the rank need not wait for the gate. Updates run
// as soon as their collective has finished, while the gradients are still in cache.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_SCHEDULE_NODES_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_SCHEDULE_NODES_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

class ScheduleNodes final : public PlanPass {
 public:
  absl::string_view name() const override { return "schedule_nodes"; }
  Facts needs() const override {
    return kVariablesOrdered | kCollectivesOrdered | kKernelsChosen | kWritesGuarded;
  }
  Facts gives() const override { return kScheduled; }
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_SCHEDULE_NODES_H_
