// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/traced_steps.h"

#include <algorithm>

#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {
constexpr int kLeastSteps = 4;
constexpr int kMostSteps = 100;
}  // namespace

absl::StatusOr<std::vector<double>> FastestInstructions(Session& session, Step& step,
                                                        absl::Span<const Tensor> feeds,
                                                        const Plan& plan, absl::Duration budget,
                                                        TraceWriter* trace) {
  const size_t first = trace->events().size();
  MF_RETURN_IF_ERROR(session.TraceTo(trace));
  const MonotonicTime end = MonotonicTime::Now() + budget;
  for (int i = 0; i < kLeastSteps || (i < kMostSteps && MonotonicTime::Now() < end); ++i) {
    absl::Status status = step.Run(feeds).status();
    if (status.ok()) continue;
    status.Update(session.TraceTo(nullptr));
    return status;
  }
  MF_RETURN_IF_ERROR(session.TraceTo(nullptr));
  // The spans of a step are in dispatch order; the span of the step itself is the last.
  std::vector<int> dispatched;
  for (const int32_t i : plan.dispatch.original) {
    if (plan.instructions[i].kind != InstructionKind::kRecord) dispatched.push_back(i);
  }
  std::vector<double> fastest(plan.instructions.size(), 0);
  size_t at = 0;
  int64_t update_ns = 0;  // of the collective whose span is next
  for (size_t i = first; i < trace->events().size(); ++i) {
    const TraceEvent& event = trace->events()[i];
    if (event.pid != 0 || event.kind != TraceEvent::kSpan) continue;
    if (event.category == "step") {
      MF_CHECK(at == dispatched.size());
      at = 0;
      continue;
    }
    if (event.category == "update") {
      update_ns = event.duration_ns;
      continue;
    }
    MF_CHECK(at < dispatched.size());
    double& ns = fastest[dispatched[at++]];
    const auto took = static_cast<double>(std::max<int64_t>(event.duration_ns + update_ns, 1));
    update_ns = 0;
    ns = ns == 0 ? took : std::min(ns, took);
  }
  return fastest;
}

}  // namespace mirrorflow
