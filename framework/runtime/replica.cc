// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/replica.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

// `result` is a Status or a StatusOr.
template <typename Result>
Result AnnotateAllocation(Result result, absl::string_view what, int rank, const Device& device) {
  if (result.ok()) return result;
  return Annotate(std::move(result),
                  absl::StrCat(what, " of replica ", rank, " on ", device.name()));
}

absl::Status CheckTime(MonotonicTime deadline) {
  const MonotonicTime now = MonotonicTime::Now();
  if (now <= deadline) [[likely]]
    return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("the step's deadline passed ",
                                                  absl::FormatDuration(now - deadline),
                                                  " before this node could begin"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Replica>> Replica::Create(
    Device* device, int rank, const VariableLayout& layout,
    absl::Span<const std::shared_ptr<std::byte>> memory) {
  std::unique_ptr<Replica> replica(new Replica(device, rank, layout));
  for (const LayoutRegion& region : layout.regions()) {
    if (const std::shared_ptr<std::byte>& given = memory[replica->layout_.size()]) {
      replica->layout_.push_back(given);
      continue;
    }
    MF_ASSIGN_OR_RETURN(
        replica->layout_.emplace_back(),
        AnnotateAllocation(region.gradients ? device->AllocateForCollectives(region.bytes)
                                            : device->Allocate(region.bytes),
                           "variables", rank, *device));
  }
  return replica;
}

absl::Status Replica::RegisterGradients() {
  for (size_t r = 0; r < regions_.size(); ++r) {
    if (!regions_[r].gradients) continue;
    MF_RETURN_IF_ERROR(communicator_->Register(layout_[r].get(), regions_[r].bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BoundPlan>> Replica::Bind(
    std::shared_ptr<const Plan> plan, const std::vector<std::vector<int64_t>>& rows, bool inner) {
  std::unique_ptr<BoundPlan> bound(new BoundPlan(this, plan));
  auto own = [&](size_t bytes) -> absl::StatusOr<std::byte*> {
    MF_ASSIGN_OR_RETURN(bound->owned_.emplace_back(), device_->Allocate(bytes));
    return bound->owned_.back().get();
  };
  std::vector<std::byte*>& bases = bound->bases_;
  bases.assign(plan->num_regions, nullptr);
  if (device_->traits().host_memory) {
    bases[kParamsRegion] = reinterpret_cast<std::byte*>(&bound->params_);
    bases[Plan::kConstantsRegion] = plan->constants->data();  // all replicas read the plan's copy
  } else {
    MF_ASSIGN_OR_RETURN(bases[Plan::kConstantsRegion], own(plan->constants_bytes));
    MF_RETURN_IF_ERROR(device_->CopyIn(plan->constants->data(), bases[Plan::kConstantsRegion],
                                       plan->constants_bytes));
    if (inner) {  // feeds are bound to the memory of the arguments
      MF_ASSIGN_OR_RETURN(bases[kParamsRegion], own(sizeof(StepParams)));
    } else {
      MF_ASSIGN_OR_RETURN(
          bound->transfers_,
          AnnotateAllocation(StepTransfers::Create(device_, *plan), "feeds", rank_, *device_));
      bases[kParamsRegion] = bound->transfers_->params();
      for (size_t f = 0; f < plan->feeds.size(); ++f) {
        const int feed = static_cast<int>(f);
        bases[plan->feed_region(feed)] = bound->transfers_->feed(feed);
      }
    }
  }
  for (size_t r = 0; r < layout_.size() && !inner; ++r) {
    bases[plan->layout_region(static_cast<int>(r))] = layout_[r].get();
  }
  if (!plan->forms.empty()) {
    MF_ASSIGN_OR_RETURN(bound->forms_,
                        BoundForms::Create(plan, forms_, absl::MakeSpan(bases), *device_));
  }
  bound->kernel_bases_.reserve(bases.size());
  for (std::byte* base : bases) bound->kernel_bases_.push_back(device_->KernelAddress(base));

  const CollectiveBinding binding = {.plan = *plan,
                                     .bases = bound->kernel_bases_.data(),
                                     .traced = bound->traced_,
                                     .run = bound->run_,
                                     .shares_variables = shares_variables_,
                                     .updated = bound->updated_};
  for (size_t i = 0; i < plan->collectives.size(); ++i) {
    bound->collectives_.push_back(BindCollective(static_cast<int>(i), rows, binding));
  }
  for (const Instruction& instruction : plan->dispatch.instructions) {
    if (instruction.kind != InstructionKind::kStart) continue;
    bound->announced_.push_back(&bound->collectives_[instruction.index]->collective());
  }
  for (const PlannedControl& control : plan->controls) {
    std::array<std::unique_ptr<BoundPlan>, 2>& plans = bound->controls_.emplace_back();
    for (int i = 0; i < 2; ++i) {
      MF_ASSIGN_OR_RETURN(plans[i], Bind(control.plans[i], rows, /*inner=*/true));
    }
  }
  if (plan->num_threads > 1) {
    size_t entries = plan->dispatch.instructions.size();
    for (const DispatchList& list : plan->dispatch_of_others) {
      entries = std::max(entries, list.instructions.size());
    }
    bound->progress_ =
        std::make_unique<ThreadProgress>(plan->num_threads, static_cast<int>(entries));
    bound->threads_.resize(plan->num_threads);
  }
  bound->params_.replica = rank_;
  for (size_t axis = 0; axis < rows.size(); ++axis) {
    for (int r = 0; r < rank_; ++r) bound->params_.first_row[axis] += rows[axis][r];
  }
  MF_RETURN_IF_ERROR(device_->ReserveEvents(plan->num_events));
  return bound;
}

void BoundPlan::SetFeed(int i, const std::byte* host) {
  if (transfers_ != nullptr) return transfers_->SetFeed(i, host);
  const RegionId region = plan_->feed_region(i);
  bases_[region] = const_cast<std::byte*>(host);  // feeds are only read
  kernel_bases_[region] = bases_[region];
}

std::byte* BoundPlan::fetch_address(int i) const {
  const Operand& operand = plan_->fetches[i].operand;
  return bases_[operand.region] + operand.offset;
}

absl::Status BoundPlan::Begin(uint64_t step, uint64_t seed, MonotonicTime deadline) {
  reached_ = 0;
  outcome_ = {};
  // Updates of the last run that are still in flight do not count as writes of this run.
  run_.fetch_add(1, std::memory_order_relaxed);
  updated_.store(false, std::memory_order_relaxed);
  late_left_ = unfinished_ ? plan_->late.size() : 0;
  deadline_ = deadline;
  if (moves_arena()) {
    replica_.FreeArena();  // first, because the old and new arenas may not both fit
    auto arena = replica_.device().Allocate(plan_->arena_bytes);
    if (!arena.ok()) {
      const absl::Status why =
          AnnotateAllocation(arena.status(), "arena", replica_.rank_, replica_.device());
      return absl::Status(
          why.code(), absl::StrCat(why.message(), "; the largest values: ", LargestValues(*plan_)));
    }
    replica_.arena_ = *std::move(arena);
    replica_.arena_bytes_ = plan_->arena_bytes;
  }
  // Updates in flight can read the bases, so the arena moves only after they have finished.
  if (bases_[Plan::kArenaRegion] != replica_.arena_.get()) {
    bases_[Plan::kArenaRegion] = replica_.arena_.get();
    kernel_bases_[Plan::kArenaRegion] = replica_.device().KernelAddress(replica_.arena_.get());
  }
  if (replica_.communicator_ != nullptr) {
    replica_.communicator_->BeginStep(step);
    replica_.communicator_->Announce(announced_);
  }
  replica_.collective_log_->BeginStep(step);
  if (forms_ != nullptr) {
    const absl::Status made = forms_->Refresh(replica_.device().lane(LaneKind::kCompute));
    if (!made.ok()) {
      const absl::Status located = Annotate(
          made, absl::StrCat("forms on ", replica_.device().name(), ", rank ", replica_.rank()));
      return WithFailure(located, {.rank = replica_.rank(), .name = "forms"});
    }
  }
  params_.step = step;
  params_.seed = seed;
  if (transfers_ == nullptr) return absl::OkStatus();  // kernels read params_ itself
  MF_ASSIGN_OR_RETURN(input_, transfers_->Prepare(params_, deadline));
  return absl::OkStatus();
}

absl::Status BoundPlan::WriteParams() {
  const auto* params = reinterpret_cast<const std::byte*>(&params_);
  if (bases_[kParamsRegion] == params) return absl::OkStatus();  // kernels read params_ itself
  return replica_.device().CopyIn(params, bases_[kParamsRegion], sizeof params_);
}

absl::Status BoundPlan::WithInstruction(const absl::Status& status,
                                        const Instruction& instruction) const {
  if (status.ok() || instruction.node < 0) return status;
  const absl::Status located =
      Annotate(status, absl::StrCat(plan_->NodeText(instruction.node), " on ",
                                    replica_.device().name(), ", rank ", replica_.rank()));
  // An error from another rank or the communicator already specifies where it occurred.
  if (FailureOf(status).has_value()) return located;
  return WithFailure(located,
                     {.rank = replica_.rank(), .name = plan_->node_names[instruction.node]});
}

absl::Status BoundPlan::FinishCollective(int index, Lane& lane) {
  CollectiveLog& log = *replica_.collective_log_;
  {
    const CollectiveLog::Wait wait(log);
    MF_RETURN_IF_ERROR(collectives_[index]->Finish(replica_.communicator_, lane));
  }
  log.Finish();
  return absl::OkStatus();
}

absl::Status BoundPlan::RunInstruction(const Instruction& instruction) {
  Device& device = replica_.device();
  Lane& lane = instruction.thread == 0 ? device.lane(instruction.lane)
                                       : device.lane_of_thread(instruction.thread);
  switch (instruction.kind) {
    case InstructionKind::kKernel: {
      const KernelArgs args(kernel_bases_.data(), &plan_->operands[instruction.first_operand],
                            instruction.num_inputs, instruction.num_outputs);
      return plan_->kernels[instruction.index]->Run(args, lane);
    }
    case InstructionKind::kCopy: {
      const Operand* operands = &plan_->operands[instruction.first_operand];
      return lane.Copy(Address(operands[0]), Address(operands[1]), instruction.bytes);
    }
    case InstructionKind::kStart:
      replica_.collective_log_->Start(instruction.index,
                                      plan_->collectives[instruction.index].name);
      MF_RETURN_IF_ERROR(collectives_[instruction.index]->Start(replica_.communicator_, lane));
      // The first run loads code on demand. Loading can wait for the whole device, or for a lock
      // that another replica holds while it loads code, so no collective may be waiting for other
      // ranks at that time.
      if (has_run_ || replica_.communicator_ == nullptr) return absl::OkStatus();
      return lane.Finish(deadline_);
    case InstructionKind::kFinishLate:
      if (late_left_ == 0) return absl::OkStatus();
      MF_RETURN_IF_ERROR(FinishCollective(instruction.index, lane));
      --late_left_;
      return absl::OkStatus();
    case InstructionKind::kFinish:
      return FinishCollective(instruction.index, lane);
    case InstructionKind::kBranch:
    case InstructionKind::kLoop:
      return RunControl(instruction);
    case InstructionKind::kRecord:
      return lane.Record(instruction.event);
    case InstructionKind::kWait:
      return lane.Wait(instruction.event);
    case InstructionKind::kAwait:
      return progress_->Await(instruction.thread, instruction.index, instruction.event, deadline_);
  }
  return absl::InternalError("unknown instruction");
}

absl::Status BoundPlan::EndRun(const absl::Status& status) {
  // If this run rejects its data, finish the updates of the last run, so that the variables have
  // the values from that run.
  const std::vector<Instruction>& instructions = plan_->dispatch.instructions;
  for (size_t i = reached_; i < instructions.size() && late_left_ > 0 && !status.ok(); ++i) {
    if (instructions[i].kind != InstructionKind::kFinishLate) continue;
    if (!RunInstruction(instructions[i]).ok()) break;
  }
  unfinished_ = status.ok() && replica_.communicator_ != nullptr && !plan_->late.empty();
  return unfinished_ ? replica_.communicator_->EndStep() : status;
}

absl::Status BoundPlan::FinishLate() {
  if (!std::exchange(unfinished_, false)) return absl::OkStatus();
  for (const int32_t index : plan_->late) {
    Lane& lane = replica_.device().lane(LaneKind::kCommunicate);
    MF_RETURN_IF_ERROR(FinishCollective(index, lane));
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::Run(uint64_t step, uint64_t seed, MonotonicTime deadline) {
  if (progress_ != nullptr) {
    const absl::Status status = WithOtherThreads([&]() -> absl::Status {
      MF_RETURN_IF_ERROR(Begin(step, seed, deadline));
      progress_->Advance(0, 0);
      return RunThread(0, deadline);
    });
    return EndRun(status);
  }
  MF_RETURN_IF_ERROR(Begin(step, seed, deadline));
  if (!replica_.device().traits().inline_lanes) {
    return EndRun(Execute([this](int i) { return RunInstruction(plan_->dispatch.instructions[i]); },
                          deadline, &recording_));
  }
  const absl::Status status = CatchOutOfMemory([&] { return RunInline(deadline); });
  const std::vector<Instruction>& instructions = plan_->dispatch.instructions;
  const bool ended = reached_ == static_cast<int>(instructions.size());
  has_run_ = has_run_ || ended;
  return EndRun(status.ok() || ended ? status : WithInstruction(status, instructions[reached_]));
}

absl::Status BoundPlan::RunInline(MonotonicTime deadline) {
  // This loop is the main cost of small kernels, so loop invariants are hoisted.
  const std::vector<Instruction>& instructions = plan_->dispatch.instructions;
  const Operand* const operands = plan_->operands.data();
  const std::unique_ptr<const Kernel>* const kernels = plan_->kernels.data();
  std::byte* const* const bases = kernel_bases_.data();
  Device& device = replica_.device();
  Lane* const lanes[] = {&device.lane(LaneKind::kCompute), &device.lane(LaneKind::kCommunicate),
                         &device.lane(LaneKind::kCopy)};
  for (const int stop : plan_->dispatch.stops) {
    for (; reached_ < stop; ++reached_) {
      const Instruction& instruction = instructions[reached_];
      absl::Status status;
      if (instruction.kind == InstructionKind::kKernel) [[likely]] {
        const KernelArgs args(bases, operands + instruction.first_operand, instruction.num_inputs,
                              instruction.num_outputs);
        status = kernels[instruction.index]->Run(args, *lanes[static_cast<int>(instruction.lane)]);
      } else {
        status = RunInstruction(instruction);
      }
      if (!status.ok()) [[unlikely]]
        return status;
    }
    if (reached_ < static_cast<int>(instructions.size())) {
      MF_RETURN_IF_ERROR(CheckTime(deadline));
    }
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::RunThread(int thread, MonotonicTime deadline) {
  const DispatchList& list = plan_->dispatch_of(thread);
  Lane& lane = replica_.device().lane_of_thread(thread);
  const bool traced = traced_.load(std::memory_order_relaxed);
  ThreadRun& run = threads_[thread];
  if (traced) run.spans.resize(list.instructions.size());
  int& i = run.reached;
  for (const int stop : list.stops) {
    for (; i < stop; ++i) {
      const Instruction& instruction = list.instructions[i];
      absl::Status status;
      if (traced) [[unlikely]] {
        status = RunTraced(list, i, &run.spans[i]);
      } else if (instruction.kind == InstructionKind::kKernel) [[likely]] {
        const KernelArgs args(kernel_bases_.data(), &plan_->operands[instruction.first_operand],
                              instruction.num_inputs, instruction.num_outputs);
        status = plan_->kernels[instruction.index]->Run(args, lane);
      } else {
        status = RunInstruction(instruction);
      }
      if (!status.ok()) [[unlikely]]
        return WithInstruction(status, plan_->instructions[list.original[i]]);
      progress_->Advance(thread, i + 1);
    }
    if (i == static_cast<int>(list.instructions.size())) break;
    if (const absl::Status status = CheckTime(deadline); !status.ok()) [[unlikely]]
      return WithInstruction(status, plan_->instructions[list.original[i]]);
  }
  return absl::OkStatus();
}

void BoundPlan::RunOtherThread(int thread, MonotonicTime deadline) {
  if (thread >= plan_->num_threads) return;
  progress_->Begin(thread);
  ThreadRun& run = threads_[thread];
  run.reached = 0;
  // Wait until thread 0 has prepared the memory.
  run.status = progress_->Await(thread, /*other=*/0, /*entries=*/0, deadline);
  if (run.status.ok()) run.status = CatchOutOfMemory([&] { return RunThread(thread, deadline); });
  progress_->End(thread, /*failed=*/!run.status.ok());
}

absl::Status BoundPlan::WithOtherThreads(absl::FunctionRef<absl::Status()> run) {
  progress_->Begin(0);
  threads_[0].reached = 0;
  threads_[0].status = CatchOutOfMemory(run);
  reached_ = threads_[0].reached;
  progress_->End(0, /*failed=*/!threads_[0].status.ok());
  progress_->AwaitEnds(0);
  other_threads_wrote_ = false;
  for (int t = 1; t < plan_->num_threads; ++t) {
    other_threads_wrote_ |= threads_[t].reached > plan_->dispatch_of(t).first_write;
  }
  // A failure cancels the other threads, so report the first error that is not a cancellation.
  const auto failed = absl::c_find_if(threads_, [](const ThreadRun& thread) {
    return !thread.status.ok() && !absl::IsCancelled(thread.status);
  });
  has_run_ = has_run_ || failed == threads_.end();
  return failed != threads_.end() ? failed->status : threads_[0].status;
}

absl::Status BoundPlan::RunTraced(uint64_t step, uint64_t seed, MonotonicTime deadline,
                                  std::vector<TraceSpan>* spans) {
  if (progress_ != nullptr) {
    const absl::Status status = WithOtherThreads([&]() -> absl::Status {
      MF_RETURN_IF_ERROR(Begin(step, seed, deadline));
      for (ThreadRun& thread : threads_) thread.spans.clear();
      traced_ = true;
      progress_->Advance(0, 0);
      return RunThread(0, deadline);
    });
    traced_ = false;
    spans->clear();
    for (const ThreadRun& thread : threads_) {
      spans->insert(spans->end(), thread.spans.begin(), thread.spans.end());
    }
    return EndRun(status);
  }
  MF_RETURN_IF_ERROR(Begin(step, seed, deadline));
  const DispatchList& dispatch = plan_->dispatch;
  spans->assign(dispatch.instructions.size(), TraceSpan{});
  traced_ = true;
  absl::Status status = Execute(
      [&](int i) -> absl::Status {
        MF_RETURN_IF_ERROR(CheckTime(deadline));
        return RunTraced(dispatch, i, &(*spans)[i]);
      },
      deadline, /*recording=*/nullptr);
  traced_ = false;
  return EndRun(status);
}

absl::Status BoundPlan::RunTraced(const DispatchList& list, int i, TraceSpan* span) {
  const Instruction& instruction = list.instructions[i];
  span->instruction = list.original[i];
  span->waits = instruction.kind == InstructionKind::kAwait;
  span->begin_ns = absl::GetCurrentTimeNanos();
  absl::Status result = RunInstruction(instruction);
  span->end_ns = absl::GetCurrentTimeNanos();
  if (Finishes(instruction.kind)) span->update_ns = collectives_[instruction.index]->update_ns();
  return result;
}

Repetition BoundPlan::RepetitionOf(const Instruction& instruction) const {
  switch (instruction.kind) {
    case InstructionKind::kKernel:
    case InstructionKind::kCopy:
      return Repetition::kWork;
    case InstructionKind::kRecord:
    case InstructionKind::kWait:
    case InstructionKind::kAwait:
      return Repetition::kOrder;
    case InstructionKind::kStart:
    case InstructionKind::kFinish:
    case InstructionKind::kFinishLate:
      // Without a communicator, no other rank is involved.
      return replica_.communicator_ == nullptr || replica_.communicator_->can_be_repeated()
                 ? Repetition::kWork
                 : Repetition::kNone;
    case InstructionKind::kBranch:
    case InstructionKind::kLoop:
      return Repetition::kNone;
  }
  return Repetition::kNone;
}

absl::Status BoundPlan::Execute(absl::FunctionRef<absl::Status(int)> run, MonotonicTime deadline,
                                std::unique_ptr<Recording>* recording) {
  const std::vector<Instruction>& instructions = plan_->dispatch.instructions;
  std::atomic<int> reached{0};
  const auto count = static_cast<int>(instructions.size());
  const MonotonicTime begin = MonotonicTime::Now();
  const bool recorded = recording != nullptr && *recording != nullptr;
  absl::Span<const StepFetch> fetches;
  if (transfers_ != nullptr) {
    fetches = transfers_->Fetches([this](int i) { return fetch_address(i); });
  }
  const bool may_outlive = recording != nullptr && fetches.empty() && !plan_->fails_on_data &&
                           replica_.communicator_ == nullptr;
  absl::Status status = replica_.device().Execute(
      {.count = count,
       .lane_of = [&](int i) { return instructions[i].lane; },
       .repetition_of = [&](int i) { return RepetitionOf(instructions[i]); },
       .run =
           [&](int i) {
             absl::Status result = CatchOutOfMemory([&] { return run(i); });
             if (!result.ok()) return WithInstruction(result, instructions[i]);
             int seen = reached.load();
             while (seen <= i && !reached.compare_exchange_weak(seen, i + 1)) {
             }
             return result;
           },
       .input = input_,
       .fetches = fetches,
       .meanwhile =
           [&] {
             host_time_ = MonotonicTime::Now() - begin;
             if (transfers_ != nullptr) transfers_->SendNext();
           },
       .deadline = deadline,
       .may_outlive = may_outlive,
       .recording = recording,
       .outcome = &outcome_});
  // A replayed recording does not report its progress, so assume that it reached the end.
  reached_ = recorded ? count : reached.load();
  has_run_ = has_run_ || status.ok() || outcome_.completed;
  // If collectives were only enqueued, this status is the only report of a failure.
  if (replica_.communicator_ != nullptr) {
    const absl::Status failure = replica_.communicator_->status();
    if (!failure.ok()) return failure;
  }
  return status;
}

}  // namespace mirrorflow
