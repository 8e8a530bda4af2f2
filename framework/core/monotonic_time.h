// SPDX-License-Identifier: Apache-2.0
//
// MonotonicTime: a moment on a clock that nobody sets. Deadlines, heartbeats and ages use it, so
// that a change of the time of day neither ends a job nor prolongs a wait; absl::Now() is for what
// people read. Only moments of the same host compare.
//
//   const MonotonicTime deadline = MonotonicTime::Now() + absl::Seconds(5);
//   while (MonotonicTime::Now() < deadline) …
#ifndef MIRRORFLOW_FRAMEWORK_CORE_MONOTONIC_TIME_H_
#define MIRRORFLOW_FRAMEWORK_CORE_MONOTONIC_TIME_H_

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace mirrorflow {

class MonotonicTime {
 public:
  // The start of the clock, which lies before every moment of this process.
  constexpr MonotonicTime() = default;
  static MonotonicTime Now();
  static constexpr MonotonicTime InfiniteFuture() {
    return MonotonicTime(std::numeric_limits<int64_t>::max());
  }
  static constexpr MonotonicTime InfinitePast() {
    return MonotonicTime(std::numeric_limits<int64_t>::min());
  }

  // For the wait_until() of a condition variable. Later than a century ahead is as good as never.
  std::chrono::steady_clock::time_point ToChrono() const;

  // What lies beyond the range, of 292 years, is infinite. Infinite moments stay infinite.
  friend MonotonicTime operator+(MonotonicTime t, absl::Duration d);
  friend MonotonicTime operator-(MonotonicTime t, absl::Duration d) { return t + -d; }
  MonotonicTime& operator+=(absl::Duration d) { return *this = *this + d; }
  // How long `b` was before `a`.
  friend absl::Duration operator-(MonotonicTime a, MonotonicTime b);
  friend constexpr auto operator<=>(MonotonicTime, MonotonicTime) = default;

  // Moves the clock of this process forward, for tests of what happens after a long time. Waits
  // that have begun are not woken.
  static void AdvanceForTest(absl::Duration d);

 private:
  explicit constexpr MonotonicTime(int64_t ns) : ns_(ns) {}
  constexpr bool is_infinite() const {
    return *this == InfiniteFuture() || *this == InfinitePast();
  }

  int64_t ns_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_MONOTONIC_TIME_H_
