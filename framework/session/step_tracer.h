// SPDX-License-Identifier: Apache-2.0
//
// StepTracer converts the recorded timelines of a session's steps into trace events.
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

// The prefix of the names of events in which one of a replica's threads waits for another.
inline constexpr absl::string_view kThreadWait = "wait for another thread";

class StepTracer {
 public:
  // `trace` must outlive the StepTracer.
  explicit StepTracer(TraceWriter* trace) : trace_(*trace) {}

  TraceWriter& trace() const { return trace_; }

  // Adds one replica's step to the trace process `rank`, which is named `process`. The whole step
  // is a span on the compute lane's thread. Each instruction of thread 0 is a span on the thread of
  // its lane; those of the replica's other threads are spans on their own threads. The span
  // categories are:
  //
  //   step        the whole step
  //   kernel      computation
  //   copy        a copy
  //   collective  the start of a collective
  //   wait        a wait for an event, another thread or a collective; on a device that runs its
  //               lanes inline, the lane does its part of that collective while it waits
  //   update      the time that a collective spends updating variables, shown as one piece at the
  //               end of the collective's span
  //
  // A collective is also an asynchronous span from its start to its finish, which may be in the
  // next step, so several collectives can overlap. An arrow leads from its start to its finish. If
  // only one end of a collective is traced, it has neither span nor arrow. The `id` of these events
  // is the rank, shifted left by 48, plus a number that is equal on all ranks.
  void AddStep(const Plan& plan, uint64_t step, int rank, absl::string_view process,
               const std::vector<TraceSpan>& spans);

  // Adds the counter `forms made`, which says how often the session has made a form (forms.h), to
  // the trace process `rank`, at the end of the step with these spans.
  void AddFormsMade(const std::vector<TraceSpan>& spans, int rank, int64_t forms_made);

  // Ends the spans of all collectives that the trace still shows in flight; they finished outside a
  // step.
  void EndFlights(int64_t now_ns);

 private:
  void AddFlight(TraceEvent begin, TraceEvent end, bool arrow);

  TraceWriter& trace_;
  std::map<uint64_t, TraceEvent> in_flight_;  // begin events, by id
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_STEP_TRACER_H_
