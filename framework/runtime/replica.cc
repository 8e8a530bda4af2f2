// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/replica.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

absl::Status WhatFor(const absl::Status& status, absl::string_view what, int rank,
                     const Device& device) {
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat(what, " of replica ", rank, " on ", device.name()));
}

absl::Status CheckTime(absl::Time now, absl::Time deadline) {
  if (now <= deadline) [[likely]]
    return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("the step's time was up before this node; expected it by ",
                   absl::FormatTime(deadline), ", got ", absl::FormatTime(now)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Replica>> Replica::Create(Device* device, int rank,
                                                         const VariableLayout& layout,
                                                         const Replica* first) {
  std::unique_ptr<Replica> replica(new Replica(device, rank));
  for (const LayoutRegion& region : layout.regions()) {
    if (region.shared && first != nullptr) {
      replica->layout_.push_back(first->layout_[replica->layout_.size()]);
      continue;
    }
    auto memory = region.gradients ? device->AllocateForCollectives(region.bytes)
                                   : device->Allocate(region.bytes);
    MF_RETURN_IF_ERROR(WhatFor(memory.status(), "variables", rank, *device));
    replica->layout_.push_back(*std::move(memory));
  }
  return replica;
}

absl::StatusOr<std::unique_ptr<BoundPlan>> Replica::Bind(
    std::shared_ptr<const Plan> plan, const std::vector<std::vector<int64_t>>& rows) {
  return Bind(std::move(plan), rows, /*inner=*/false);
}

absl::StatusOr<std::unique_ptr<BoundPlan>> Replica::Bind(
    std::shared_ptr<const Plan> plan, const std::vector<std::vector<int64_t>>& rows, bool inner) {
  std::unique_ptr<BoundPlan> bound(new BoundPlan(this, plan));
  auto own = [&](size_t bytes) -> absl::StatusOr<std::byte*> {
    MF_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, device_->Allocate(bytes));
    bound->owned_.push_back(memory);
    return memory.get();
  };
  std::vector<std::byte*>& bases = bound->bases_;
  bases.assign(plan->num_regions, nullptr);
  if (device_->traits().host_memory) {
    bases[kParamsRegion] = reinterpret_cast<std::byte*>(&bound->params_);
    bases[Plan::kConstantsRegion] = plan->constants->data();  // all replicas read the plan's own
  } else {
    MF_ASSIGN_OR_RETURN(bases[kParamsRegion], own(sizeof(StepParams)));
    MF_ASSIGN_OR_RETURN(bases[Plan::kConstantsRegion], own(plan->constants_bytes));
    MF_RETURN_IF_ERROR(device_->CopyIn(plan->constants->data(), bases[Plan::kConstantsRegion],
                                       plan->constants_bytes));
  }
  for (size_t f = 0; f < plan->feeds.size(); ++f) {
    if (device_->traits().host_memory || inner) continue;  // bound to the fed memory itself
    MF_ASSIGN_OR_RETURN(bases[plan->feed_region(static_cast<int>(f))], own(plan->feeds[f].bytes()));
  }
  bound->next_feeds_.resize(plan->feeds.size());
  for (size_t r = 0; r < layout_.size() && !inner; ++r) {
    bases[plan->layout_region(static_cast<int>(r))] = layout_[r].get();
  }
  bound->kernel_bases_.reserve(bases.size());
  for (std::byte* base : bases) bound->kernel_bases_.push_back(device_->KernelAddress(base));

  bound->collectives_.reserve(plan->collectives.size());
  auto has_counts = [](const PlannedCollective& planned) {
    return planned.kind == CollectiveKind::kAllGather ||
           planned.kind == CollectiveKind::kReduceScatter ||
           planned.kind == CollectiveKind::kUpdateByProduct;
  };
  for (const PlannedCollective& planned : plan->collectives) {
    bound->collectives_.push_back({.kind = planned.kind,
                                   .reduction = planned.reduction,
                                   .dtype = planned.dtype,
                                   .count = planned.count,
                                   .is_whole = planned.is_whole,
                                   .rows = planned.rows,
                                   .row_bytes = planned.row_bytes,
                                   .name = planned.name});
    if (!has_counts(planned)) continue;
    for (int64_t rank_rows : rows[planned.axis]) {
      bound->counts_.push_back(rank_rows * planned.elements_per_row);
    }
  }
  for (const PlannedUpdate& planned : plan->updates) {
    bound->updates_.emplace_back(bound.get(), &planned);
  }
  absl::Span<const int64_t> counts = bound->counts_;
  for (size_t i = 0; i < plan->collectives.size(); ++i) {
    if (!has_counts(plan->collectives[i])) continue;
    const size_t world_size = rows[plan->collectives[i].axis].size();
    bound->collectives_[i].counts = counts.first(world_size);
    counts.remove_prefix(world_size);
  }
  for (const PlannedControl& control : plan->controls) {
    std::array<std::unique_ptr<BoundPlan>, 2>& plans = bound->controls_.emplace_back();
    for (int i = 0; i < 2; ++i) {
      MF_ASSIGN_OR_RETURN(plans[i], Bind(control.plans[i], rows, /*inner=*/true));
    }
  }
  bound->params_.replica = rank_;
  for (size_t axis = 0; axis < rows.size(); ++axis) {
    for (int r = 0; r < rank_; ++r) bound->params_.first_row[axis] += rows[axis][r];
  }
  MF_RETURN_IF_ERROR(device_->ReserveEvents(plan->num_events));
  return bound;
}

absl::Status BoundPlan::SetFeed(int i, const std::byte* host) {
  reached_ = 0;  // should this fail, nothing is written
  updated_.store(false, std::memory_order_relaxed);
  const RegionId region = plan_->feed_region(i);
  Device& device = replica_.device();
  if (device.traits().host_memory) {
    bases_[region] = const_cast<std::byte*>(host);  // feeds are only read
    kernel_bases_[region] = bases_[region];
    return absl::OkStatus();
  }
  NextFeed& next = next_feeds_[i];
  const bool arrived = next.copied && next.host == host;
  next.host = nullptr;
  return arrived ? device.CopyArrived(next.ahead.get(), bases_[region], plan_->feeds[i].bytes())
                 : device.CopyIn(host, bases_[region], plan_->feeds[i].bytes());
}

absl::Status BoundPlan::SetNextFeed(int i, const std::byte* host) {
  Device& device = replica_.device();
  NextFeed& next = next_feeds_[i];
  if (next.ahead == nullptr) {
    MF_ASSIGN_OR_RETURN(next.ahead, device.Allocate(plan_->feeds[i].bytes()));
  }
  next.host = host;
  next.copied = false;
  return absl::OkStatus();
}

void BoundPlan::ForgetNextFeeds() {
  for (NextFeed& next : next_feeds_) next.host = nullptr;
}

void BoundPlan::CopyNextFeeds() {
  for (size_t i = 0; i < next_feeds_.size(); ++i) {
    NextFeed& next = next_feeds_[i];
    if (next.host == nullptr || next.copied) continue;
    // Whatever is in the way will be so in the next Run as well, which says it.
    next.copied =
        replica_.device().CopyAhead(next.host, next.ahead.get(), plan_->feeds[i].bytes()).ok();
  }
}

std::byte* BoundPlan::fetch_address(int i) const {
  const Operand& operand = plan_->fetches[i].operand;
  return bases_[operand.region] + operand.offset;
}

absl::Status BoundPlan::Begin(uint64_t step, uint64_t seed, absl::Time deadline) {
  reached_ = 0;
  outcome_ = {};
  updated_.store(false, std::memory_order_relaxed);
  deadline_ = deadline;
  if (plan_->arena_bytes > replica_.arena_bytes_ || replica_.arena_ == nullptr) {
    // The old one first: there may be no room for both.
    replica_.arena_ = nullptr;
    replica_.arena_bytes_ = 0;
    auto arena = replica_.device().Allocate(plan_->arena_bytes);
    if (!arena.ok()) {
      const absl::Status why = WhatFor(arena.status(), "arena", replica_.rank_, replica_.device());
      return absl::Status(
          why.code(), absl::StrCat(why.message(), "; the largest values: ", LargestValues(*plan_)));
    }
    replica_.arena_ = *std::move(arena);
    replica_.arena_bytes_ = plan_->arena_bytes;
  }
  bases_[Plan::kArenaRegion] = replica_.arena_.get();
  kernel_bases_[Plan::kArenaRegion] = replica_.device().KernelAddress(replica_.arena_.get());
  params_.step = step;
  params_.seed = seed;
  return WriteParams();
}

absl::Status BoundPlan::WriteParams() {
  const auto* params = reinterpret_cast<const std::byte*>(&params_);
  if (bases_[kParamsRegion] == params) return absl::OkStatus();  // kernels read it where it is
  return replica_.device().CopyIn(params, bases_[kParamsRegion], sizeof params_);
}

absl::Status BoundPlan::Locate(const absl::Status& status, const Instruction& instruction) const {
  if (status.ok() || instruction.node < 0) return status;
  return absl::Status(status.code(), absl::StrCat(plan_->node_ops[instruction.node], "(",
                                                  plan_->node_names[instruction.node], ") on ",
                                                  replica_.device().name(), ", rank ",
                                                  replica_.rank(), ": ", status.message()));
}

// A collective may gather a feed, which lies elsewhere in each step.
void BoundPlan::LocateCollective(int i) {
  const PlannedCollective& planned = plan_->collectives[i];
  if (planned.kind == CollectiveKind::kBarrier) return;
  Collective& collective = collectives_[i];
  collective.in = Address(planned.in);
  if (planned.update < 0) {
    collective.out = Address(planned.out);
    return;
  }
  BoundUpdate& update = updates_[planned.update];
  collective.variables = update.Locate();
  if (planned.kind == CollectiveKind::kUpdate) {
    collective.update = &update;
  } else {
    collective.right = Address(planned.right);
    collective.product_update = &update;
  }
}

// A world of one is what it reduces.
absl::Status BoundPlan::FinishCollective(int i, Lane* lane) {
  if (replica_.communicator_ != nullptr) {
    return replica_.communicator_->Finish(collectives_[i], lane);
  }
  const Collective& own = collectives_[i];
  if (own.kind == CollectiveKind::kUpdate) own.update->Run(0, own.in, own.count);
  if (own.kind == CollectiveKind::kUpdateByProduct) {
    const ProductRows rows{own.in, own.right, own.counts[0]};
    own.product_update->Run({&rows, 1}, 0, own.rows);
  }
  return absl::OkStatus();
}

BoundPlan::BoundUpdate::BoundUpdate(const BoundPlan* plan, const PlannedUpdate* planned)
    : plan_(*plan),
      planned_(*planned),
      kernel_(*plan->plan_->kernels[planned->kernel]),
      variables_(planned->variables.size()) {}

template <typename Work>
void BoundPlan::BoundUpdate::RunKernel(Work work) const {
  plan_.updated_.store(true, std::memory_order_relaxed);
  const KernelArgs args(plan_.kernel_bases_.data(), &plan_.plan_->operands[planned_.first_operand],
                        planned_.num_inputs, /*num_outputs=*/0);
  const int64_t begin_ns = plan_.traced_ ? absl::GetCurrentTimeNanos() : 0;
  work(args);
  if (plan_.traced_) nanoseconds_ += absl::GetCurrentTimeNanos() - begin_ns;
}

void BoundPlan::BoundUpdate::Run(int64_t first, const void* reduced, int64_t count) const {
  RunKernel([&](const KernelArgs& args) {
    static_cast<const UpdateKernel&>(kernel_).RunPart(args, reduced, first, count);
  });
}

void BoundPlan::BoundUpdate::Run(absl::Span<const ProductRows> parts, int64_t first,
                                 int64_t last) const {
  RunKernel([&](const KernelArgs& args) {
    static_cast<const UpdateByProductKernel&>(kernel_).RunRows(args, parts, first, last);
  });
}

absl::Span<std::byte* const> BoundPlan::BoundUpdate::Locate() {
  nanoseconds_ = 0;
  for (size_t i = 0; i < variables_.size(); ++i) {
    variables_[i] =
        plan_.Address(plan_.plan_->operands[planned_.first_operand + planned_.variables[i]]);
  }
  return variables_;
}

absl::Status BoundPlan::RunInstruction(const Instruction& instruction) {
  Lane& lane = replica_.device().lane(instruction.lane);
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
      LocateCollective(instruction.index);
      if (replica_.communicator_ == nullptr) return absl::OkStatus();
      return replica_.communicator_->Start(collectives_[instruction.index], &lane);
    case InstructionKind::kFinish:
      return FinishCollective(instruction.index, &lane);
    case InstructionKind::kBranch:
    case InstructionKind::kLoop:
      return RunControl(instruction);
    case InstructionKind::kRecord:
      return lane.Record(instruction.event);
    case InstructionKind::kWait:
      return lane.Wait(instruction.event);
  }
  return absl::InternalError("unknown instruction");
}

absl::Status BoundPlan::Run(uint64_t step, uint64_t seed, absl::Time deadline) {
  MF_RETURN_IF_ERROR(Begin(step, seed, deadline));
  if (!replica_.device().traits().inline_lanes) {
    if (recorded_arena_ != replica_.arena_.get()) {
      recording_ = nullptr;
      recorded_arena_ = replica_.arena_.get();
    }
    return Execute([this](int i) { return RunInstruction(plan_->dispatch.instructions[i]); },
                   deadline, &recording_);
  }
  // What a small kernel costs is spent here, so what is the same for all is looked up once.
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
        return Locate(status, instruction);
    }
    if (reached_ < static_cast<int>(instructions.size())) {
      MF_RETURN_IF_ERROR(Locate(CheckTime(absl::Now(), deadline), instructions[reached_]));
    }
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::RunTraced(uint64_t step, uint64_t seed, absl::Time deadline,
                                  std::vector<TraceSpan>* spans) {
  MF_RETURN_IF_ERROR(Begin(step, seed, deadline));
  const DispatchList& dispatch = plan_->dispatch;
  spans->assign(dispatch.instructions.size(), TraceSpan{});
  traced_ = true;
  absl::Status status = Execute(
      [&](int i) -> absl::Status {
        TraceSpan& span = (*spans)[i];
        span.instruction = dispatch.original[i];
        span.begin_ns = absl::GetCurrentTimeNanos();
        MF_RETURN_IF_ERROR(CheckTime(absl::FromUnixNanos(span.begin_ns), deadline));
        const Instruction& instruction = dispatch.instructions[i];
        absl::Status result = RunInstruction(instruction);
        span.end_ns = absl::GetCurrentTimeNanos();
        if (instruction.kind == InstructionKind::kFinish) {
          const int update = plan_->collectives[instruction.index].update;
          if (update >= 0) span.update_ns = updates_[update].nanoseconds();
        }
        return result;
      },
      deadline, /*recording=*/nullptr);
  traced_ = false;
  return status;
}

Repetition BoundPlan::RepetitionOf(const Instruction& instruction) const {
  switch (instruction.kind) {
    case InstructionKind::kKernel:
    case InstructionKind::kCopy:
      return Repetition::kWork;
    case InstructionKind::kRecord:
    case InstructionKind::kWait:
      return Repetition::kOrder;
    case InstructionKind::kStart:
    case InstructionKind::kFinish:
      // Without a communicator there is nothing to do.
      return replica_.communicator_ == nullptr || replica_.communicator_->can_be_repeated()
                 ? Repetition::kWork
                 : Repetition::kNone;
    case InstructionKind::kBranch:
    case InstructionKind::kLoop:
      return Repetition::kNone;
  }
  return Repetition::kNone;
}

absl::Status BoundPlan::Execute(absl::FunctionRef<absl::Status(int)> run, absl::Time deadline,
                                std::unique_ptr<Recording>* recording) {
  const std::vector<Instruction>& instructions = plan_->dispatch.instructions;
  std::atomic<int> reached{0};
  const auto count = static_cast<int>(instructions.size());
  const absl::Time begin = absl::Now();
  const bool recorded = recording != nullptr && *recording != nullptr;
  absl::Status status = replica_.device().Execute(
      {.count = count,
       .lane_of = [&](int i) { return instructions[i].lane; },
       .repetition_of = [&](int i) { return RepetitionOf(instructions[i]); },
       .run =
           [&](int i) {
             absl::Status result = run(i);
             if (!result.ok()) return Locate(result, instructions[i]);
             int seen = reached.load();
             while (seen <= i && !reached.compare_exchange_weak(seen, i + 1)) {
             }
             return result;
           },
       .meanwhile =
           [&] {
             host_time_ = absl::Now() - begin;
             CopyNextFeeds();
           },
       .deadline = deadline,
       .recording = recording,
       .outcome = &outcome_});
  // How far a recording got, nobody knows.
  reached_ = recorded ? count : reached.load();
  // Of a collective that was enqueued only this says how it ended.
  if (replica_.communicator_ != nullptr) {
    const absl::Status failure = replica_.communicator_->Check();
    if (!failure.ok()) return failure;
  }
  return status;
}

}  // namespace mirrorflow
