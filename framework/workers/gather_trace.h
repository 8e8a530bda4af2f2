// SPDX-License-Identifier: Apache-2.0
//
// GatherTrace merges the traces of all workers into worker 0's trace. The other functions are its
// steps, exposed for tests.
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

// Adds the traces of all other workers to worker 0's, on worker 0's clock, and records the clock
// offsets and their errors. The other workers' traces do not change. `passages` are this worker's
// times at barriers that all workers have passed. All workers must call it with the same `name`;
// each call needs a new name.
absl::Status GatherTrace(absl::string_view name, absl::Span<const Passage> passages,
                         WorkerGroup& workers, MonotonicTime deadline, TraceWriter* trace);

struct ClockOffset {
  int64_t ns = 0;
  int64_t max_error_ns = 0;  // bound on the error of `ns`
};

// Estimates the offset between the clocks of two processes from barriers that both have passed.
//
// A process leaves a barrier after the other has entered it. So if the first leaves at `leave` on
// its clock, and the second enters at `enter` on its own, the first clock is ahead by at most
// leave - enter. With the roles exchanged, this bounds the offset from below. The distance between
// the bounds is the total time that both processes spent in the barrier. OffsetOf uses the barrier
// with the smallest distance and returns the midpoint of its bounds: the error is at most half the
// distance, about one round trip, no matter how the delays of the two directions differ.
//
// Returns how far the clock of `other` is ahead of the clock of `own`. Both must have passed the
// same barriers. Returns InvalidArgument if there are no barriers, or the counts differ.
absl::StatusOr<ClockOffset> OffsetOf(absl::Span<const Passage> other,
                                     absl::Span<const Passage> own);

// Converts a trace to the message that workers send. The message stores each name once and times as
// differences, so an event takes about 30 bytes.
proto::Trace TraceToProto(const TraceWriter& trace);

// Adds the trace of another process, whose clock is `clock_offset_ns` ahead of this one's. Returns
// InvalidArgument for a malformed trace, which may have been added in part.
absl::Status MergeTrace(const proto::Trace& proto, int64_t clock_offset_ns, TraceWriter* trace);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_WORKERS_GATHER_TRACE_H_
