// SPDX-License-Identifier: Apache-2.0
#include "framework/core/monotonic_time.h"

#include <time.h>

#include <algorithm>
#include <atomic>

namespace mirrorflow {
namespace {

std::atomic<int64_t> advanced_ns{0};

}  // namespace

MonotonicTime MonotonicTime::Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return MonotonicTime(now.tv_sec * 1'000'000'000 + now.tv_nsec +
                       advanced_ns.load(std::memory_order_relaxed));
}

MonotonicTime operator+(MonotonicTime t, absl::Duration d) {
  if (t.is_infinite()) return t;
  // Clamps longer durations, such as infinite ones, to the longest that fits.
  const int64_t ns = absl::ToInt64Nanoseconds(d);
  if (ns == MonotonicTime::InfiniteFuture().ns_) return MonotonicTime::InfiniteFuture();
  if (ns == MonotonicTime::InfinitePast().ns_) return MonotonicTime::InfinitePast();
  int64_t sum;
  if (!__builtin_add_overflow(t.ns_, ns, &sum)) return MonotonicTime(sum);
  return ns > 0 ? MonotonicTime::InfiniteFuture() : MonotonicTime::InfinitePast();
}

absl::Duration operator-(MonotonicTime a, MonotonicTime b) {
  if (a == b) return absl::ZeroDuration();
  if (a.is_infinite() || b.is_infinite()) return (a > b ? 1 : -1) * absl::InfiniteDuration();
  return absl::Nanoseconds(a.ns_) - absl::Nanoseconds(b.ns_);
}

std::chrono::steady_clock::time_point MonotonicTime::ToChrono() const {
  const absl::Duration left = std::min(*this - Now(), absl::Hours(24 * 365 * 100));
  return std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(left);
}

void MonotonicTime::AdvanceForTest(absl::Duration d) { advanced_ns += absl::ToInt64Nanoseconds(d); }

}  // namespace mirrorflow
