// SPDX-License-Identifier: Apache-2.0
//
// A step that ran, as a timeline.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_TRACE_SESSION_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_TRACE_SESSION_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "framework/runtime/replica.h"
#include "framework/runtime/trace.h"

namespace mirrorflow {

// Adds one replica's step to `trace`: a span an instruction on the lane's thread, and for each
// collective an asynchronous span from its start to its finish.
void AddTraceOfStep(const Plan& plan, int rank, absl::string_view device,
                    const std::vector<TraceSpan>& spans, TraceWriter* trace);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_TRACE_SESSION_H_
