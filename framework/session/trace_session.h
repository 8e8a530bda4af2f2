// SPDX-License-Identifier: Apache-2.0
//
// AddTraceOfStep converts the recorded timeline of a replica's step into trace events.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_TRACE_SESSION_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_TRACE_SESSION_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/runtime/plan.h"
#include "framework/runtime/replica.h"
#include "framework/runtime/trace.h"

namespace mirrorflow {

// Adds one replica's step to `trace`: a span for the whole step on the thread of the compute lane,
// and within it one span for each instruction, on the thread of its lane. The categories of spans:
//
//   step        the whole step
//   kernel      computation
//   copy        a copy
//   collective  the start of a collective
//   wait        a wait for an event or for a collective; on a device that runs its lanes inline,
//               the lane works on its share of that collective meanwhile
//   update      all pieces in which a collective updates variables, joined at the end of its span
//
// From start to finish, a collective is also an asynchronous span, so that several may overlap, and
// an arrow leads from its start to its finish.
void AddTraceOfStep(const Plan& plan, uint64_t step, int rank, absl::string_view device,
                    const std::vector<TraceSpan>& spans, TraceWriter* trace);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_TRACE_SESSION_H_
