// SPDX-License-Identifier: Apache-2.0
#include "framework/core/monotonic_time.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

TEST(MonotonicTimeTest, InfiniteAndLongDurationsGiveInfiniteTimes) {
  const MonotonicTime now = MonotonicTime::Now(), start;
  const MonotonicTime future = MonotonicTime::InfiniteFuture(),
                      past = MonotonicTime::InfinitePast();
  const absl::Duration longer = absl::Hours(24 * 365 * 300);
  for (const absl::Duration d : {absl::InfiniteDuration(), longer}) {
    for (const MonotonicTime t : {now, start, future}) EXPECT_EQ(t + d, future);
    for (const MonotonicTime t : {now, start, past}) EXPECT_EQ(t - d, past);
    EXPECT_EQ(past + d, past);
    EXPECT_EQ(future - d, future);
  }
  EXPECT_EQ(future + absl::Seconds(1), future);
  EXPECT_EQ(past - absl::Seconds(1), past);
  EXPECT_EQ(future - now, absl::InfiniteDuration());
  EXPECT_EQ(past - now, -absl::InfiniteDuration());
  EXPECT_EQ(future - future, absl::ZeroDuration());
}

TEST(MonotonicTimeTest, FiniteTimesAreExact) {
  const MonotonicTime now = MonotonicTime::Now();
  const absl::Duration d = absl::Seconds(3) + absl::Nanoseconds(7);
  EXPECT_EQ((now + d) - now, d);
  EXPECT_EQ((now - d) - now, -d);
  EXPECT_LT(now, now + absl::Nanoseconds(1));
}

TEST(MonotonicTimeTest, ClockAdvances) {
  const MonotonicTime before = MonotonicTime::Now();
  MonotonicTime::AdvanceForTest(absl::Hours(2));
  const MonotonicTime after = MonotonicTime::Now();
  EXPECT_GE(after - before, absl::Hours(2));
  EXPECT_LT(after - before, absl::Hours(3));
}

}  // namespace
}  // namespace mirrorflow
