// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/plan_writer.h"

#include <algorithm>
#include <limits>

namespace mirrorflow {

void PlanWriter::AddOperand(int storage) {
  s_.operand_storage.push_back(storage);
  plan_.operands.push_back({});
}

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
  for (const StorageUse& use : uses) Touch(use.storage, NextIndex());
  plan_.instructions.push_back(instruction);
  plan_.accesses.emplace_back();
  s_.uses.push_back(uses);
}

void PlanWriter::AppendEvent(InstructionKind kind, LaneKind lane, EventId event) {
  Append({.kind = kind, .lane = lane, .event = event}, {});
}

void PlanWriter::Order(LaneKind from, LaneKind to) {
  const EventId event = plan_.num_events++;
  AppendEvent(InstructionKind::kRecord, from, event);
  AppendEvent(InstructionKind::kWait, to, event);
}

void PlanWriter::Touch(int storage, int at) {
  const int root = s_.storage.Root(storage);
  s_.lifetimes.resize(s_.storage.all.size(), {std::numeric_limits<int>::max(), -1, 0});
  Lifetime& life = s_.lifetimes[root];
  life.first = std::min(life.first, at);
  life.last = std::max(life.last, at);
}

}  // namespace mirrorflow
