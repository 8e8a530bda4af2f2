// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/trace_session.h"

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

const char* LaneTitle(int lane) {
  constexpr const char* kTitles[kNumLanes] = {"compute", "communicate", "copy"};
  return kTitles[lane];
}

}  // namespace

void AddTraceOfStep(const Plan& plan, int rank, absl::string_view device,
                    const std::vector<TraceSpan>& spans, TraceWriter* trace) {
  trace->NameProcess(rank, absl::StrCat("replica ", rank, " (", device, ")"));
  for (int lane = 0; lane < kNumLanes; ++lane) trace->NameThread(rank, lane, LaneTitle(lane));
  for (const TraceSpan& span : spans) {
    if (span.end_ns == 0) continue;
    const Instruction& instruction = plan.instructions[span.instruction];
    if (instruction.node < 0) continue;  // events
    TraceEvent event{.name = plan.node_names[instruction.node],
                     .category = plan.node_ops[instruction.node],
                     .pid = rank,
                     .tid = static_cast<int>(instruction.lane),
                     .start_ns = span.begin_ns,
                     .duration_ns = span.end_ns - span.begin_ns};
    const bool start = instruction.kind == InstructionKind::kStart;
    const bool finish = instruction.kind == InstructionKind::kFinish;
    if (start || finish) {
      const PlannedCollective& collective = plan.collectives[instruction.index];
      const int64_t bytes = collective.count * static_cast<int64_t>(DataTypeSize(collective.dtype));
      TraceEvent flight{.name = collective.name,
                        .category = "collective",
                        .kind = start ? TraceEvent::kAsyncBegin : TraceEvent::kAsyncEnd,
                        .pid = rank,
                        .tid = event.tid,
                        .start_ns = start ? span.begin_ns : span.end_ns,
                        .id = static_cast<uint64_t>(collective.sequence)};
      flight.args.emplace_back("bytes", absl::StrCat(bytes));
      trace->Add(std::move(flight));
      event.name = absl::StrCat(start ? "start " : "finish ", event.name);
    }
    trace->Add(std::move(event));
  }
}

}  // namespace mirrorflow
