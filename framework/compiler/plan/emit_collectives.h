// SPDX-License-Identifier: Apache-2.0
//
// EmitCollectives: emits the instructions of collectives and their descriptions in the plan. A
// collective starts at its node's position in the schedule and is finished before the first use of
// its result.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_EMIT_COLLECTIVES_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_EMIT_COLLECTIVES_H_

#include <deque>

#include "absl/container/inlined_vector.h"
#include "framework/compiler/plan/plan_state.h"
#include "framework/compiler/plan/plan_writer.h"

namespace mirrorflow {

class EmitCollectives {
 public:
  EmitCollectives(PlanState& s, PlanWriter& writer) : s_(s), plan_(*s.plan), writer_(writer) {}

  // Starts a collective.
  void Start(const Node& collective);
  // Finishes all collectives up to and including `sequence`, in start order.
  void FinishUpTo(int sequence);
  // Returns the sequence number of the last collective that was started, or -1 if none was.
  int last() const { return static_cast<int>(plan_.collectives.size()) - 1; }
  // Finishes the updates that were started before the previous long kernel, because nothing else in
  // the step waits for them. Call this before a product or convolution: such a long kernel gives
  // the other ranks time to start the collectives that this rank has started.
  void FinishUpdates() {
    FinishUpTo(update_before_work_);
    update_before_work_ = last_update_;
  }

 private:
  struct InFlight {
    int index = 0;
    int name = 0;
    StorageUses uses = {};  // memory in use from the start to the finish
    EventId done = -1;      // set only on devices that enqueue collectives
  };

  void StartReduction(const Node& node, PlannedCollective* collective, InFlight* flight);
  void StartRows(const Node& node, PlannedCollective* collective, InFlight* flight);
  void StartUpdate(const Node& node, PlannedCollective* collective, InFlight* flight);
  void DescribeProduct(const Node& node, UpdateCall call, PlannedCollective* collective);
  void Copy(int from, int to, int name);
  void Launch(InFlight flight);

  PlanState& s_;
  Plan& plan_;
  PlanWriter& writer_;
  std::deque<InFlight> in_flight_;
  int last_update_ = -1;         // the last update that was started
  int update_before_work_ = -1;  // last_update_ before the last long kernel
};

// Returns the collective's operands, so that PlanMemory can assign their addresses.
inline absl::InlinedVector<Operand*, 3> OperandsOf(PlannedCollective& c) {
  absl::InlinedVector<Operand*, 3> operands = {&c.in, &c.out};
  auto* const update = std::get_if<PlannedProductUpdate>(&c.operation);
  if (update != nullptr) operands.push_back(&update->right);
  return operands;
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_EMIT_COLLECTIVES_H_
