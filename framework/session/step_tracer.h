// SPDX-License-Identifier: Apache-2.0
//
// StepTracer converts the recorded timelines of the steps of a session into trace events.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_STEP_TRACER_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_STEP_TRACER_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/runtime/plan.h"
#include "framework/runtime/replica.h"
#include "framework/runtime/trace.h"

namespace mirrorflow {

class StepTracer {
 public:
  // `trace` must outlive the StepTracer.
  explicit StepTracer(TraceWriter* trace) : trace_(*trace) {}

  TraceWriter& trace() const { return trace_; }

  // Adds one replica's step, in the process `rank` of the trace, which is called `process`: a span
  // for the whole step on the thread of the compute lane, and within it one span for each
  // instruction, on the thread of its lane. The categories of spans:
  //
  //   step        the whole step
  //   kernel      computation
  //   copy        a copy
  //   collective  the start of a collective
  //   wait        a wait for an event or for a collective; on a device that runs its lanes inline,
  //               the lane works on its share of that collective meanwhile
  //   update      all pieces in which a collective updates variables, joined at the end of its span
  //
  // From start to finish, perhaps in the next step, a collective is also an asynchronous span, so
  // that several may overlap, and an arrow leads from its start to its finish. A collective of
  // which only one end is traced has neither. The `id` of these events is the rank, shifted left by
  // 48, plus a number that is equal on all ranks.
  void AddStep(const Plan& plan, uint64_t step, int rank, absl::string_view process,
               const std::vector<TraceSpan>& spans);

  // All collectives still in flight have ended, outside of a step.
  void EndFlights(int64_t now_ns);

 private:
  void AddFlight(TraceEvent begin, TraceEvent end, bool arrow);

  TraceWriter& trace_;
  std::map<uint64_t, TraceEvent> in_flight_;  // the beginnings, by id
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_STEP_TRACER_H_
