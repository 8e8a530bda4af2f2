// SPDX-License-Identifier: Apache-2.0
//
// PlanWriter: appends instructions to the plan of a PlanState, and notes which storages each uses,
// which keeps their memory alive. Operands name storages; PlanMemory fills in their addresses.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_WRITER_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_WRITER_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

class PlanWriter {
 public:
  explicit PlanWriter(PlanState& s) : s_(s), plan_(*s.plan) {}

  int NextIndex() const { return static_cast<int>(plan_.instructions.size()); }
  int NextOperand() const { return static_cast<int>(plan_.operands.size()); }

  // An operand in the storage; -1: none.
  void AddOperand(int storage);
  // Memory that lives as long as instructions use it; an operand too.
  int AddScratch(int64_t bytes);
  // What instructions say of the node, for errors and traces.
  int AddName(const Node& node);
  void Append(Instruction instruction, const StorageUses& uses);
  void AppendEvent(InstructionKind kind, LaneKind lane, EventId event);
  // Makes `to` wait for all that `from` holds so far.
  void Order(LaneKind from, LaneKind to);
  // Notes that the memory of the storage is in use at instruction `at`.
  void Touch(int storage, int at);

 private:
  PlanState& s_;
  Plan& plan_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_WRITER_H_
