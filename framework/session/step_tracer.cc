// SPDX-License-Identifier: Apache-2.0
#include "framework/session/step_tracer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

// Returns the trace category of an instruction.
const char* CategoryOf(InstructionKind kind) {
  if (kind == InstructionKind::kKernel || RunsPlans(kind)) return "kernel";
  if (kind == InstructionKind::kCopy) return "copy";
  if (kind == InstructionKind::kStart || kind == InstructionKind::kRecord) return "collective";
  return "wait";
}

// The id of a collective in flight consists of its rank, the step that started it, and its index.
constexpr int kRankShift = 48, kStepShift = 16;

// The trace's ids of threads 1, 2, … follow those of the lanes, which thread 0 runs.
int TidOfThread(int thread) { return kNumLanes - 1 + thread; }

TraceEvent EventOf(const Plan& plan, const TraceSpan& span, int rank) {
  const Instruction& instruction = plan.instructions[span.instruction];
  const bool is_other = instruction.thread > 0;
  TraceEvent event{
      .category = span.waits ? "wait" : CategoryOf(instruction.kind),
      .pid = rank,
      .tid = is_other ? TidOfThread(instruction.thread) : static_cast<int>(instruction.lane),
      .start_ns = span.begin_ns,
      .duration_ns = span.end_ns - span.begin_ns};
  if (instruction.node < 0) {
    event.name = absl::StrCat("wait for event ", instruction.event);
    return event;
  }
  event.name = plan.node_names[instruction.node];
  event.args.emplace_back("op", plan.node_ops[instruction.node]);
  int64_t bytes = 0;
  for (const MemoryAccess& access : plan.accesses[span.instruction]) bytes += access.bytes;
  event.args.emplace_back("bytes", absl::StrCat(bytes));
  return event;
}

}  // namespace

void StepTracer::AddStep(const Plan& plan, uint64_t step, int rank, absl::string_view process,
                         const std::vector<TraceSpan>& spans) {
  trace_.NameProcess(rank, process);
  for (int lane = 0; lane < kNumLanes; ++lane) trace_.NameThread(rank, lane, kLaneNames[lane]);
  for (int thread = 1; thread < plan.num_threads; ++thread) {
    trace_.NameThread(rank, TidOfThread(thread), absl::StrCat("thread ", thread));
  }
  const auto id_of = [rank](uint64_t begun, int32_t index) {
    return static_cast<uint64_t>(rank) << kRankShift | begun << kStepShift |
           static_cast<uint64_t>(index);
  };
  TraceEvent whole{.name = absl::StrCat("step ", step), .category = "step", .pid = rank};
  int64_t end_ns = 0;
  for (const TraceSpan& span : spans) {
    if (span.end_ns == 0) continue;
    if (end_ns == 0 || span.begin_ns < whole.start_ns) whole.start_ns = span.begin_ns;
    end_ns = std::max(end_ns, span.end_ns);
    const Instruction& instruction = plan.instructions[span.instruction];
    if (instruction.kind == InstructionKind::kRecord) continue;
    TraceEvent event = EventOf(plan, span, rank);
    const bool start = instruction.kind == InstructionKind::kStart;
    if (span.waits) {
      event.name = absl::StrCat(kThreadWait, " before ", event.name);
    } else if (start || Finishes(instruction.kind)) {
      const PlannedCollective& collective = plan.collectives[instruction.index];
      event.args.back().second = absl::StrCat(collective.bytes());
      TraceEvent end = event;
      end.name = collective.name;
      end.category = "collective";
      end.start_ns = start ? span.begin_ns : span.end_ns;
      end.duration_ns = 0;
      const bool late = instruction.kind == InstructionKind::kFinishLate;
      end.id = id_of(late ? step - 1 : step, instruction.index);
      if (start) {
        in_flight_.insert_or_assign(end.id, std::move(end));
      } else if (auto begin = in_flight_.extract(end.id); !begin.empty()) {
        AddFlight(std::move(begin.mapped()), std::move(end), /*arrow=*/true);
      }
      if (span.update_ns > 0) {
        TraceEvent update = event;
        update.category = "update";
        // Part of the update may have run before this instruction.
        update.duration_ns = std::min(span.update_ns, event.duration_ns);
        event.duration_ns -= update.duration_ns;
        update.start_ns = event.start_ns + event.duration_ns;
        trace_.Add(std::move(update));
      }
      event.name = absl::StrCat(start ? "start " : "finish ", event.name);
    }
    trace_.Add(std::move(event));
  }
  whole.duration_ns = end_ns - whole.start_ns;
  if (end_ns > 0) trace_.Add(std::move(whole));
  // A collective of an earlier step that never finished belongs to a failed step.
  std::erase_if(in_flight_, [&](const auto& begin) {
    return begin.second.pid == rank && begin.first < id_of(step, 0);
  });
}

void StepTracer::AddFormsMade(const std::vector<TraceSpan>& spans, int rank, int64_t forms_made) {
  int64_t end_ns = 0;
  for (const TraceSpan& span : spans) end_ns = std::max(end_ns, span.end_ns);
  if (end_ns == 0) return;
  trace_.Add({.name = "forms made",
              .category = "memory",
              .kind = TraceEvent::kCounter,
              .pid = rank,
              .start_ns = end_ns,
              .args = {{"forms", absl::StrCat(forms_made)}}});
}

void StepTracer::EndFlights(int64_t now_ns) {
  for (auto& [id, begin] : std::exchange(in_flight_, {})) {
    TraceEvent end = begin;
    end.start_ns = now_ns;
    AddFlight(std::move(begin), std::move(end), /*arrow=*/false);
  }
}

void StepTracer::AddFlight(TraceEvent begin, TraceEvent end, bool arrow) {
  begin.kind = TraceEvent::kAsyncBegin;
  end.kind = TraceEvent::kAsyncEnd;
  trace_.Add(begin);
  trace_.Add(end);
  if (!arrow) return;
  for (TraceEvent* point : {&begin, &end}) {
    point->kind = point == &begin ? TraceEvent::kFlowStart : TraceEvent::kFlowFinish;
    point->args.clear();
    trace_.Add(std::move(*point));
  }
}

}  // namespace mirrorflow
