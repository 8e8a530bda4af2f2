// SPDX-License-Identifier: Apache-2.0
//
// Branches and loops of a bound plan. The thread that runs the instruction waits for the predicate,
// then runs the selected sub-plan.

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/reduced_float.h"
#include "framework/core/status.h"
#include "framework/runtime/replica.h"

namespace mirrorflow {
namespace {

// Returns whether the predicate at `at` is true or nonzero.
absl::StatusOr<bool> Holds(const PlannedControl& control, const std::byte* at, Lane& lane,
                           MonotonicTime deadline) {
  if (control.predicate == DT_INVALID) return control.has_elements;
  alignas(8) std::byte predicate[8];
  MF_RETURN_IF_ERROR(lane.Read(at, predicate, DataTypeSize(control.predicate), deadline));
  if (IsReducedFloat(control.predicate)) {
    return ReducedToFloat(control.predicate, *reinterpret_cast<uint16_t*>(predicate)) != 0;
  }
  return DispatchDataType(
      control.predicate,
      [&]<typename T>(TypeTag<T>) { return *reinterpret_cast<T*>(predicate) != T{}; }, false);
}

absl::Status Copy(const std::byte* from, std::byte* to, int64_t bytes, Lane& lane) {
  return from != to && bytes > 0 ? lane.Copy(from, to, bytes) : absl::OkStatus();
}

}  // namespace

// Binds argument i to the memory of `arguments[i]` in the enclosing plan.
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
  // The first run loads code on demand (see kStart in replica.cc).
  if (!has_run_ && replica_.communicator_ != nullptr) {
    MF_RETURN_IF_ERROR(replica_.device().lane(LaneKind::kCommunicate).Finish(deadline_));
  }
  if (replica_.communicator_ != nullptr) replica_.communicator_->Announce(announced_);
  for (const Instruction& instruction : plan_->dispatch.instructions) {
    absl::Status status = RunInstruction(instruction);
    if (status.ok()) [[likely]]
      continue;
    return Annotate(status, plan_->NodeText(instruction.node));
  }
  has_run_ = true;
  return absl::OkStatus();
}

// Copies the results of `body` to `results`, which may be the memory of its arguments. A result
// that aliases another argument is staged in `scratch` first.
absl::Status BoundPlan::CopyResults(const BoundPlan& body, const PlannedControl& control,
                                    const Operand* results, std::byte* scratch, Lane& lane) const {
  const std::vector<PlannedFetch>& fetches = body.plan_->fetches;
  for (size_t i = 0; i < fetches.size(); ++i) {
    if (control.staging[i] < 0) continue;
    MF_RETURN_IF_ERROR(Copy(body.Address(fetches[i].operand), scratch + control.staging[i],
                            control.bytes[i], lane));
  }
  for (size_t i = 0; i < fetches.size(); ++i) {
    const std::byte* from =
        control.staging[i] < 0 ? body.Address(fetches[i].operand) : scratch + control.staging[i];
    MF_RETURN_IF_ERROR(Copy(from, Address(results[i]), control.bytes[i], lane));
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::RunControl(const Instruction& instruction) {
  const PlannedControl& control = plan_->controls[instruction.index];
  const Operand* inputs = &plan_->operands[instruction.first_operand];
  const Operand* outputs = inputs + instruction.num_inputs;
  std::byte* scratch = Address(outputs[instruction.num_outputs]);
  auto& plans = controls_[instruction.index];
  Lane& lane = replica_.device().lane(instruction.lane);
  if (instruction.kind == InstructionKind::kBranch) {
    MF_ASSIGN_OR_RETURN(const bool holds, Holds(control, Address(inputs[0]), lane, deadline_));
    BoundPlan& branch = *plans[holds ? 0 : 1];
    branch.SetArguments(*this, inputs + control.first_argument);
    MF_RETURN_IF_ERROR(branch.RunInside(*this, scratch, params_.iteration));
    return CopyResults(branch, control, outputs, scratch, lane);
  }
  // The memory of the outputs holds the loop's values, even before the first iteration.
  BoundPlan &condition = *plans[0], &body = *plans[1];
  for (int i = 0; i < instruction.num_outputs; ++i) {
    MF_RETURN_IF_ERROR(Copy(Address(inputs[i]), Address(outputs[i]), control.bytes[i], lane));
  }
  condition.SetArguments(*this, outputs);
  body.SetArguments(*this, outputs);
  for (uint64_t i = 0;; ++i) {
    const uint64_t iteration = IterationOf(params_.iteration, i);
    MF_RETURN_IF_ERROR(condition.RunInside(*this, scratch, iteration));
    const std::byte* predicate = condition.Address(condition.plan_->fetches[0].operand);
    MF_ASSIGN_OR_RETURN(const bool holds, Holds(control, predicate, lane, deadline_));
    if (!holds) break;
    MF_RETURN_IF_ERROR(body.RunInside(*this, scratch, iteration));
    MF_RETURN_IF_ERROR(CopyResults(body, control, outputs, scratch, lane));
    if (MonotonicTime::Now() > deadline_) [[unlikely]] {
      return absl::DeadlineExceededError(
          absl::StrCat("the step's deadline passed after ", i + 1, " iterations"));
    }
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
