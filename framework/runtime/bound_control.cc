// SPDX-License-Identifier: Apache-2.0
//
// How a bound plan runs branches and loops: the thread that runs the instruction runs the sub-plan.
// The predicate is read by it too, so its memory must be the host's.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/reduced_float.h"
#include "framework/core/status.h"
#include "framework/runtime/replica.h"

namespace mirrorflow {
namespace {

// Whether the predicate that lies there holds: true, or not 0.
bool Holds(const PlannedControl& control, const std::byte* predicate) {
  if (control.predicate == DT_INVALID) return control.has_elements;
  if (IsReducedFloat(control.predicate)) {
    return ReducedToFloat(control.predicate, *reinterpret_cast<const uint16_t*>(predicate)) != 0;
  }
  return DispatchDataType(
      control.predicate,
      [&](auto tag) {
        using T = typename decltype(tag)::type;
        return *reinterpret_cast<const T*>(predicate) != T{};
      },
      false);
}

void Copy(const std::byte* from, std::byte* to, int64_t bytes) {
  if (from != to && bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

// Argument i is what lies at arguments[i] of the plan around this one.
void BoundPlan::SetArguments(const BoundPlan& outer, const Operand* arguments) {
  for (size_t i = 0; i < plan_->feeds.size(); ++i) {
    kernel_bases_[plan_->feed_region(static_cast<int>(i))] = outer.Address(arguments[i]);
  }
}

absl::Status BoundPlan::RunInside(const BoundPlan& outer, std::byte* arena, uint64_t iteration) {
  kernel_bases_[Plan::kArenaRegion] = arena;
  deadline_ = outer.deadline_;
  params_.step = outer.params_.step;
  params_.seed = outer.params_.seed;
  params_.iteration = iteration;
  MF_RETURN_IF_ERROR(WriteParams());
  for (const Instruction& instruction : plan_->dispatch.instructions) {
    absl::Status status = RunInstruction(instruction);
    if (status.ok()) [[likely]]
      continue;
    return Annotate(status, absl::StrCat(plan_->node_ops[instruction.node], "(",
                                         plan_->node_names[instruction.node], ")"));
  }
  return absl::OkStatus();
}

// Results of `body` go to `results`, which may be its arguments: one that is another argument is
// first put aside.
void BoundPlan::CopyResults(const BoundPlan& body, const PlannedControl& control,
                            const Operand* results, std::byte* scratch) const {
  const std::vector<PlannedFetch>& fetches = body.plan_->fetches;
  for (size_t i = 0; i < fetches.size(); ++i) {
    if (control.staging[i] < 0) continue;
    Copy(body.Address(fetches[i].operand), scratch + control.staging[i], control.bytes[i]);
  }
  for (size_t i = 0; i < fetches.size(); ++i) {
    const std::byte* from =
        control.staging[i] < 0 ? body.Address(fetches[i].operand) : scratch + control.staging[i];
    Copy(from, Address(results[i]), control.bytes[i]);
  }
}

absl::Status BoundPlan::RunControl(const Instruction& instruction) {
  const PlannedControl& control = plan_->controls[instruction.index];
  const Operand* inputs = &plan_->operands[instruction.first_operand];
  const Operand* outputs = inputs + instruction.num_inputs;
  std::byte* scratch = Address(outputs[instruction.num_outputs]);
  auto& plans = controls_[instruction.index];
  if (instruction.kind == InstructionKind::kBranch) {
    BoundPlan& branch = *plans[Holds(control, Address(inputs[0])) ? 0 : 1];
    branch.SetArguments(*this, inputs + control.first_argument);
    MF_RETURN_IF_ERROR(branch.RunInside(*this, scratch, params_.iteration));
    CopyResults(branch, control, outputs, scratch);
    return absl::OkStatus();
  }
  // The values lie where the outputs are, from before the first iteration on.
  BoundPlan &condition = *plans[0], &body = *plans[1];
  for (int i = 0; i < instruction.num_outputs; ++i) {
    Copy(Address(inputs[i]), Address(outputs[i]), control.bytes[i]);
  }
  condition.SetArguments(*this, outputs);
  body.SetArguments(*this, outputs);
  for (uint64_t i = 0;; ++i) {
    const uint64_t iteration = IterationOf(params_.iteration, i);
    MF_RETURN_IF_ERROR(condition.RunInside(*this, scratch, iteration));
    if (!Holds(control, condition.Address(condition.plan_->fetches[0].operand))) break;
    MF_RETURN_IF_ERROR(body.RunInside(*this, scratch, iteration));
    CopyResults(body, control, outputs, scratch);
    if (absl::Now() > deadline_) [[unlikely]] {
      return absl::DeadlineExceededError(
          absl::StrCat("the step's time was up after ", i + 1, " iterations"));
    }
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
