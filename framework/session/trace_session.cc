// SPDX-License-Identifier: Apache-2.0
#include "framework/session/trace_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

const char* LaneTitle(int lane) {
  constexpr const char* kTitles[kNumLanes] = {"compute", "communicate", "copy"};
  return kTitles[lane];
}

// The trace category of an instruction.
const char* CategoryOf(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kKernel:
    case InstructionKind::kBranch:
    case InstructionKind::kLoop:
      return "kernel";
    case InstructionKind::kCopy:
      return "copy";
    case InstructionKind::kStart:
    case InstructionKind::kRecord:
      return "collective";
    case InstructionKind::kFinish:
    case InstructionKind::kWait:
      return "wait";
  }
  return "";
}

TraceEvent EventOf(const Plan& plan, const TraceSpan& span, int rank) {
  const Instruction& instruction = plan.instructions[span.instruction];
  TraceEvent event{.category = CategoryOf(instruction.kind),
                   .pid = rank,
                   .tid = static_cast<int>(instruction.lane),
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

void AddTraceOfStep(const Plan& plan, uint64_t step, int rank, absl::string_view device,
                    const std::vector<TraceSpan>& spans, TraceWriter* trace) {
  trace->NameProcess(rank, absl::StrCat("replica ", rank, " (", device, ")"));
  for (int lane = 0; lane < kNumLanes; ++lane) trace->NameThread(rank, lane, LaneTitle(lane));
  TraceEvent whole{.name = absl::StrCat("step ", step), .category = "step", .pid = rank};
  int64_t end_ns = 0;
  // By collective: the id that joins its events, unique in the trace.
  std::vector<uint64_t> ids(plan.collectives.size());
  for (const TraceSpan& span : spans) {
    if (span.end_ns == 0) continue;
    if (end_ns == 0 || span.begin_ns < whole.start_ns) whole.start_ns = span.begin_ns;
    end_ns = std::max(end_ns, span.end_ns);
    const Instruction& instruction = plan.instructions[span.instruction];
    if (instruction.kind == InstructionKind::kRecord) continue;
    TraceEvent event = EventOf(plan, span, rank);
    const bool start = instruction.kind == InstructionKind::kStart;
    if (start || instruction.kind == InstructionKind::kFinish) {
      const PlannedCollective& collective = plan.collectives[instruction.index];
      uint64_t& id = ids[instruction.index];
      if (start) id = trace->events().size();
      event.args.back().second = absl::StrCat(collective.bytes());
      TraceEvent flight{.name = collective.name,
                        .category = "collective",
                        .kind = start ? TraceEvent::kAsyncBegin : TraceEvent::kAsyncEnd,
                        .pid = rank,
                        .tid = event.tid,
                        .start_ns = start ? span.begin_ns : span.end_ns,
                        .id = id,
                        .args = event.args};
      TraceEvent arrow = flight;
      arrow.kind = start ? TraceEvent::kFlowStart : TraceEvent::kFlowFinish;
      arrow.args.clear();
      trace->Add(std::move(flight));
      trace->Add(std::move(arrow));
      if (span.update_ns > 0) {
        TraceEvent update = event;
        update.category = "update";
        update.duration_ns = span.update_ns;
        event.duration_ns -= span.update_ns;
        update.start_ns = event.start_ns + event.duration_ns;
        trace->Add(std::move(update));
      }
      event.name = absl::StrCat(start ? "start " : "finish ", event.name);
    }
    trace->Add(std::move(event));
  }
  whole.duration_ns = end_ns - whole.start_ns;
  if (end_ns > 0) trace->Add(std::move(whole));
}

}  // namespace mirrorflow
