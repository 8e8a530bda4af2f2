// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_CHECK_TRACE_H_
#define MIRRORFLOW_TESTS_SUPPORT_CHECK_TRACE_H_

#include "absl/status/status.h"
#include "framework/runtime/trace.h"

namespace mirrorflow {

// Returns InvalidArgument, naming the event, for anything that viewers drop or show incorrectly:
// spans of one thread that overlap without nesting, a begin without an end or vice versa, an arrow
// with only one end or with an end outside every span.
absl::Status CheckTrace(const TraceWriter& trace);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_CHECK_TRACE_H_
