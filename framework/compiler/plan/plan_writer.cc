// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/plan_writer.h"

namespace mirrorflow {

int PlanWriter::AddScratch(int64_t bytes) {
  const int scratch = s_.storage.Add({.bytes = bytes});
  AddOperand(scratch);
  return scratch;
}

int PlanWriter::AddName(const Node& node) {
  plan_.node_names.push_back(node.name());
  plan_.node_ops.push_back(node.op().name);
  return static_cast<int>(plan_.node_names.size()) - 1;
}

void PlanWriter::Append(Instruction instruction, const StorageUses& uses) {
  plan_.instructions.push_back(instruction);
  std::vector<MemoryAccess>& accesses = plan_.accesses.emplace_back();
  accesses.reserve(uses.size());
  for (const auto& [storage, is_write] : uses) {
    accesses.push_back(
        {Unplaced(storage), s_.storage.all[storage].bytes, is_write, s_.storage.Root(storage)});
  }
}

void PlanWriter::Order(LaneKind from, LaneKind to) {
  const EventId event = plan_.num_events++;
  AppendEvent(InstructionKind::kRecord, from, event);
  AppendEvent(InstructionKind::kWait, to, event);
}

}  // namespace mirrorflow
