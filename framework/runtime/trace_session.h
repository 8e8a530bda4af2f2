// SPDX-License-Identifier: Apache-2.0
//
// What a session's bookkeeping needs to know of a step that ran.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_TRACE_SESSION_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_TRACE_SESSION_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/compiler/compilation.h"
#include "framework/runtime/replica.h"
#include "framework/runtime/trace.h"

namespace mirrorflow {

// Adds one replica's step to `trace`: a span an instruction on the lane's thread, and for each
// collective an asynchronous span from its start to its finish.
void AddTraceOfStep(const Plan& plan, int rank, absl::string_view device,
                    const std::vector<TraceSpan>& spans, TraceWriter* trace);

// Variables of the compilation's layout that the step reads before it writes them, and those that
// it writes; sorted.
absl::Status FindVariableUses(const Compilation& c, std::vector<int>* reads_first,
                              std::vector<int>* writes);

// Of the replicas' statuses after a failed step, the cause: an aborted communicator hands the first
// error to every rank, so those that are mere echoes of another come last.
absl::Status FirstCause(absl::Span<const absl::Status> statuses);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_TRACE_SESSION_H_
