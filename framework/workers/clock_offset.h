// SPDX-License-Identifier: Apache-2.0
//
// Estimates the offset between the clocks of two processes from barriers that both have passed.
//
// A process leaves a barrier after the other has entered it. So if the first leaves at `leave` on
// its clock, and the second enters at `enter` on its own, the first clock is ahead by at most
// leave - enter. With the roles exchanged, this bounds the offset from below. The two bounds are as
// far apart as the times that both processes spent in the barrier, together. OffsetOf takes the
// barrier in which that is least, and the middle between its bounds: the error is at most half of
// it, about the time of one round trip, no matter how the delays of the two directions differ.
#ifndef MIRRORFLOW_FRAMEWORK_WORKERS_CLOCK_OFFSET_H_
#define MIRRORFLOW_FRAMEWORK_WORKERS_CLOCK_OFFSET_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace mirrorflow {

// The times at which a process entered and left a barrier, on its own clock.
struct Passage {
  int64_t enter_ns = 0;
  int64_t leave_ns = 0;
};

struct ClockOffset {
  int64_t ns = 0;
  int64_t max_error_ns = 0;  // of `ns`
};

// Returns how far the clock of `other` is ahead of that of `own`, which have passed the same
// barriers. Returns InvalidArgument if there are none, or the counts differ.
absl::StatusOr<ClockOffset> OffsetOf(absl::Span<const Passage> other,
                                     absl::Span<const Passage> own);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_WORKERS_CLOCK_OFFSET_H_
