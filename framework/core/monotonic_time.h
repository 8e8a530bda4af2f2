// SPDX-License-Identifier: Apache-2.0
//
// MonotonicTime: a time on the system's monotonic clock. Deadlines, heartbeats and ages use it, so
// setting the time of day neither ends a job nor prolongs a wait. Use absl::Now() only for
// timestamps that people read. Compare only times of the same host.
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
  // The start of the clock, before the start of this process.
  constexpr MonotonicTime() = default;
  static MonotonicTime Now();
  static constexpr MonotonicTime InfiniteFuture() {
    return MonotonicTime(std::numeric_limits<int64_t>::max());
  }
  static constexpr MonotonicTime InfinitePast() {
    return MonotonicTime(std::numeric_limits<int64_t>::min());
  }

  // Converts to the type that std::condition_variable::wait_until() takes. The result is at most a
  // century ahead.
  std::chrono::steady_clock::time_point ToChrono() const;

  // Saturates: a result out of range (292 years) is infinite, and infinite times stay infinite.
  friend MonotonicTime operator+(MonotonicTime t, absl::Duration d);
  friend MonotonicTime operator-(MonotonicTime t, absl::Duration d) { return t + -d; }
  MonotonicTime& operator+=(absl::Duration d) { return *this = *this + d; }
  // Returns the duration from `b` to `a`.
  friend absl::Duration operator-(MonotonicTime a, MonotonicTime b);
  friend constexpr auto operator<=>(MonotonicTime, MonotonicTime) = default;

  // Moves this process's clock forward, so that tests need not sleep. Does not wake waiting
  // threads.
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
