// SPDX-License-Identifier: Apache-2.0
//
// What of a replica's step a trace shows.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_TRACE_SESSION_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_TRACE_SESSION_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/runtime/plan.h"
#include "framework/runtime/replica.h"
#include "framework/runtime/trace.h"

namespace mirrorflow {

// Adds one replica's step to `trace`: a span for the whole on the thread of the compute lane, and
// within its time a span an instruction on the thread of its lane. Their categories say what the
// lane does: `kernel`, `copy`, `collective` (it starts one) or `wait` (for an event, or for a
// collective to finish, and on a device that runs its lanes inline it works off its share of that
// then). The pieces in which a collective updates variables are put together
// behind it, as an `update`. From start to finish a collective is an asynchronous span, so several
// may overlap, and an arrow leads from the one to the other.
void AddTraceOfStep(const Plan& plan, uint64_t step, int rank, absl::string_view device,
                    const std::vector<TraceSpan>& spans, TraceWriter* trace);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_TRACE_SESSION_H_
