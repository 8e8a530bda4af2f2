// SPDX-License-Identifier: Apache-2.0
//
// GatherTrace merges the traces of all workers into that of worker 0.
#ifndef MIRRORFLOW_FRAMEWORK_WORKERS_GATHER_TRACE_H_
#define MIRRORFLOW_FRAMEWORK_WORKERS_GATHER_TRACE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/trace.h"
#include "framework/workers/clock_offset.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

namespace proto {
class Trace;
}  // namespace proto

// Converts a trace to the message in which it travels. Every name is sent once, and times as
// differences: an event takes about 30 bytes.
proto::Trace TraceToProto(const TraceWriter& trace);

// Adds the trace of another process, whose clock is `clock_offset_ns` ahead of this one's. Returns
// InvalidArgument for a malformed trace, of which a part may have been added.
absl::Status MergeTrace(const proto::Trace& proto, int64_t clock_offset_ns, TraceWriter* trace);

// Adds the traces of all other workers to that of worker 0, on the clock of worker 0, and records
// the clock offsets and their errors. The traces of the other workers do not change. `passages` are
// the times of this worker at barriers that all workers have passed. All workers must call it under
// the same `name`; each call needs a new one.
absl::Status GatherTrace(absl::string_view name, absl::Span<const Passage> passages,
                         WorkerGroup& workers, MonotonicTime deadline, TraceWriter* trace);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_WORKERS_GATHER_TRACE_H_
