// SPDX-License-Identifier: Apache-2.0
//
// ScheduleNodes: finds an order in which a single thread can run all nodes of a program.
// Collectives start in the program's order, each as soon as its operands are ready; the nodes that
// the next collective waits for run first. A node that depends on a collective is delayed until a
// later collective is also in flight, or until no other node is left, so a rank seldom waits for
// other ranks.
//
// An update's gate (a finite loss) must not delay the collectives that wait for it. If the next
// collective is blocked only on earlier collectives, the nodes in between therefore run after the
// next long kernel. Nodes that follow a collective (updates) run before other nodes, so gradients
// are freed while they are in cache.
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
