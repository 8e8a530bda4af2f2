// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/plan.h"

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

absl::string_view LaneName(LaneKind lane) {
  switch (lane) {
    case LaneKind::kCompute:
      return "compute";
    case LaneKind::kCommunicate:
      return "communicate";
    case LaneKind::kCopy:
      return "copy";
  }
  return "unknown";
}

}  // namespace

std::string Plan::ToString() const {
  std::string text;
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    absl::StrAppend(&text, i, " ", LaneName(instruction.lane), " ");
    const std::string node = instruction.node >= 0 ? absl::StrCat(node_ops[instruction.node], "(",
                                                                  node_names[instruction.node], ")")
                                                   : "";
    switch (instruction.kind) {
      case InstructionKind::kKernel:
        absl::StrAppend(&text, "run ", node);
        break;
      case InstructionKind::kCopy:
        absl::StrAppend(&text, "copy for ", node);
        break;
      case InstructionKind::kStart:
        absl::StrAppend(&text, "start ", node);
        break;
      case InstructionKind::kFinish:
        absl::StrAppend(&text, "finish ", node);
        break;
      case InstructionKind::kRecord:
        absl::StrAppend(&text, "record event ", instruction.event);
        break;
      case InstructionKind::kWait:
        absl::StrAppend(&text, "wait for event ", instruction.event);
        break;
    }
    for (const MemoryAccess& access : accesses[i]) {
      absl::StrAppend(&text, " ", access.is_write ? "w" : "r", access.operand.region, "+",
                      access.operand.offset, ":", access.bytes);
    }
    text += '\n';
  }
  return text;
}

}  // namespace mirrorflow
