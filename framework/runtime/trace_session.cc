// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/trace_session.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

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

absl::Status FindVariableUses(const Compilation& c, std::vector<int>* reads_first,
                              std::vector<int>* writes) {
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  absl::flat_hash_set<int> read, written;
  for (const Node* node : order) {
    const OpRole role = node->op().role;
    if (role != OpRole::kRead && role != OpRole::kWrite) continue;
    for (const Output& in : node->inputs()) {
      if (in.dtype() != DT_RESOURCE) continue;
      const int v = c.layout->FindHandle(in);
      if (v < 0) return absl::InternalError(absl::StrCat("no variable for ", in.ToString()));
      const bool needs_value = role == OpRole::kRead || !node->op().has(kOverwrites);
      if (needs_value && !written.contains(v)) read.insert(v);
      if (role == OpRole::kWrite) written.insert(v);
    }
  }
  reads_first->assign(read.begin(), read.end());
  writes->assign(written.begin(), written.end());
  std::sort(reads_first->begin(), reads_first->end());
  std::sort(writes->begin(), writes->end());
  return absl::OkStatus();
}

absl::Status FirstCause(absl::Span<const absl::Status> statuses) {
  const absl::Status* first = nullptr;
  for (const absl::Status& status : statuses) {
    if (status.ok()) continue;
    // An echo ends with the message of what it repeats, and says more in front of it.
    bool is_echo = false;
    for (const absl::Status& other : statuses) {
      is_echo |= !other.ok() && other.message().size() < status.message().size() &&
                 absl::EndsWith(status.message(), other.message());
    }
    if (!is_echo && first == nullptr) first = &status;
  }
  return first != nullptr ? *first : absl::OkStatus();
}

}  // namespace mirrorflow
