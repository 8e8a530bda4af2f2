// SPDX-License-Identifier: Apache-2.0
//
// ScheduleNodes: finds an order for a single thread to run all nodes of a program. Collectives
// start in the program's order, each as soon as its operands are ready; the nodes that the next
// collective waits for run first. Nodes that depend on a collective run only once a later
// collective is also in flight, or when no other node is left, so a rank seldom waits for other
// ranks.
//
// A collective can wait for the result of an earlier one: updates wait for their gate, which
// depends on the reduced loss. If the next collective waits only for earlier collectives, the nodes
// in between run after the next long kernel (a product or convolution), so that they do not delay
// the next collective. Nodes that follow a collective, such as updates, run before other nodes, so
// that gradients are used and freed while they are in cache.
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
