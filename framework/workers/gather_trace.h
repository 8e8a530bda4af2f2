// SPDX-License-Identifier: Apache-2.0
//
// GatherTrace merges the traces of all workers into worker 0's trace. The functions below it are
// its steps, exposed for tests.
#ifndef MIRRORFLOW_FRAMEWORK_WORKERS_GATHER_TRACE_H_
#define MIRRORFLOW_FRAMEWORK_WORKERS_GATHER_TRACE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/trace.h"
#include "framework/workers/rank_exchange.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

namespace proto {
class Trace;
}  // namespace proto

// Adds the traces of all other workers to that of worker 0, on the clock of worker 0, and records
// the clock offsets and their errors. The traces of the other workers do not change. `passages` are
// the times of this worker at barriers that all workers have passed. All workers must call it under
// the same `name`; each call needs a new one.
absl::Status GatherTrace(absl::string_view name, absl::Span<const Passage> passages,
                         WorkerGroup& workers, MonotonicTime deadline, TraceWriter* trace);

struct ClockOffset {
  int64_t ns = 0;
  int64_t max_error_ns = 0;  // of `ns`
};

// Estimates the offset between the clocks of two processes from barriers that both have passed.
//
// A process leaves a barrier after the other has entered it. So if the first leaves at `leave` on
// its clock, and the second enters at `enter` on its own, the first clock is ahead by at most
// leave - enter. With the roles exchanged, this bounds the offset from below. The two bounds are as
// far apart as the times that both processes spent in the barrier, together. OffsetOf takes the
// barrier in which that is least, and the middle between its bounds: the error is at most half of
// it, about the time of one round trip, no matter how the delays of the two directions differ.
//
// Returns how far the clock of `other` is ahead of that of `own`, which have passed the same
// barriers. Returns InvalidArgument if there are none, or the counts differ.
absl::StatusOr<ClockOffset> OffsetOf(absl::Span<const Passage> other,
                                     absl::Span<const Passage> own);

// Converts a trace to the message that workers send. It stores each name once and times as
// differences, so an event takes about 30 bytes.
proto::Trace TraceToProto(const TraceWriter& trace);

// Adds the trace of another process, whose clock is `clock_offset_ns` ahead of this one's. Returns
// InvalidArgument for a malformed trace, of which a part may have been added.
absl::Status MergeTrace(const proto::Trace& proto, int64_t clock_offset_ns, TraceWriter* trace);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_WORKERS_GATHER_TRACE_H_
