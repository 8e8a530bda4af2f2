// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/step_memory.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "framework/session/session_memory.h"

namespace mirrorflow {
namespace {

// Returns how much scratch memory instruction `i` uses. Scratch memory is the operand after the
// inputs and outputs, and the last memory that the instruction accesses.
int64_t ScratchOf(const Plan& plan, size_t i) {
  const Instruction& instruction = plan.instructions[i];
  if (instruction.kind != InstructionKind::kKernel && !RunsPlans(instruction.kind)) {
    return 0;
  }
  if (plan.accesses[i].empty()) return 0;
  const MemoryAccess& last = plan.accesses[i].back();
  const auto is_last = [&](const Operand& operand) {
    return operand.region == last.operand.region && operand.offset == last.operand.offset;
  };
  const absl::Span<const Operand> values =
      absl::MakeConstSpan(plan.operands)
          .subspan(instruction.first_operand, instruction.num_inputs + instruction.num_outputs);
  const bool is_scratch = last.is_write && last.operand.region == Plan::kArenaRegion &&
                          absl::c_none_of(values, is_last);
  return is_scratch ? last.bytes : 0;
}

}  // namespace

StepMemory MemoryOf(const Plan& plan, const VariableLayout& layout) {
  StepMemory memory = {.constants = plan.constants_bytes,
                       .forms = plan.form_bytes(),
                       .arena = plan.arena_bytes,
                       .fetches = FetchBytes(plan)};
  for (const VariableInfo& variable : layout.variables()) {
    (variable.is_optimizer_state ? memory.optimizer_state : memory.variables) += variable.bytes();
  }
  for (const LayoutRegion& region : layout.regions()) {
    if (region.gradients) memory.gradients += region.bytes;
  }
  for (const PlannedFeed& feed : plan.feeds) memory.feeds += static_cast<int64_t>(feed.bytes());
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    memory.scratch = std::max(memory.scratch, ScratchOf(plan, i));
  }
  return memory;
}

}  // namespace mirrorflow
