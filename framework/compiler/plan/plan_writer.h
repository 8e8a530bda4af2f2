// SPDX-License-Identifier: Apache-2.0
//
// PlanWriter: appends instructions to the plan of a PlanState. Their operands are Unplaced.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_WRITER_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_WRITER_H_

#include "absl/container/inlined_vector.h"
#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

// How an instruction uses a storage.
struct StorageUse {
  int storage;
  bool is_write;
};
using StorageUses = absl::InlinedVector<StorageUse, 4>;

class PlanWriter {
 public:
  explicit PlanWriter(PlanState& s) : s_(s), plan_(*s.plan) {}

  int NextOperand() const { return static_cast<int>(plan_.operands.size()); }
  // Adds an operand in `storage`, or an empty one if it is -1.
  void AddOperand(int storage) { plan_.operands.push_back(Unplaced(storage)); }
  // Adds an operand in new scratch memory, whose lifetime spans the first to the last instruction
  // that uses it. Returns the storage.
  int AddScratch(int64_t bytes);
  // Adds the node's name and op, for errors and traces. Returns the index that instructions use to
  // refer to them.
  int AddName(const Node& node);
  void Append(Instruction instruction, const StorageUses& uses);
  void AppendEvent(InstructionKind kind, LaneKind lane, EventId event) {
    Append({.kind = kind, .lane = lane, .event = event}, {});
  }
  // Makes lane `to` wait for all instructions emitted so far in lane `from`.
  void Order(LaneKind from, LaneKind to);

 private:
  PlanState& s_;
  Plan& plan_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_WRITER_H_
