// SPDX-License-Identifier: Apache-2.0
//
// Carries a trace from one process to another. Every name is sent once, and times as differences:
// an event takes about 30 bytes.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_TRACE_PROTO_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_TRACE_PROTO_H_

#include <cstdint>

#include "absl/status/status.h"
#include "framework/proto/trace.pb.h"
#include "framework/runtime/trace.h"

namespace mirrorflow {

proto::Trace TraceToProto(const TraceWriter& trace);

// Adds the trace of another process, whose clock is `clock_offset_ns` ahead of this one's. Returns
// InvalidArgument for a malformed trace, of which a part may have been added.
absl::Status MergeTrace(const proto::Trace& proto, int64_t clock_offset_ns, TraceWriter* trace);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_TRACE_PROTO_H_
