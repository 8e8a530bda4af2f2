// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "framework/workers/gather_trace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

constexpr int64_t kAhead = 5'000'000'000;  // how far the other clock is ahead, in nanoseconds

// Simulates two processes that pass barriers. All times are in nanoseconds on this process's clock.
// A process leaves a barrier once it knows that the other process has arrived.
struct Barriers {
  void Pass(int64_t own_enters, int64_t other_enters, int64_t to_own, int64_t to_other) {
    const int64_t own_leaves = std::max(own_enters, other_enters + to_own);
    const int64_t other_leaves = std::max(other_enters, own_enters + to_other);
    own.push_back({own_enters, own_leaves});
    other.push_back({other_enters + kAhead, other_leaves + kAhead});
  }
  std::vector<Passage> own, other;
};

TEST(ClockOffsetTest, ErrorIsBoundedByTheTightestBarrier) {
  Barriers barriers;
  barriers.Pass(0, 9'000'000, 40'000, 60'000);  // the other process arrives late
  barriers.Pass(9'100'000, 9'105'000, 40'000,
                50'000);  // the error bound is 45 µs in both directions
  barriers.Pass(10'000'000, 9'700'000, 30'000, 90'000);  // the other process waits
  const ClockOffset offset = OffsetOf(barriers.other, barriers.own).value();
  EXPECT_EQ(offset.max_error_ns, 45'000);
  EXPECT_LE(std::abs(offset.ns - kAhead), offset.max_error_ns);
}

TEST(ClockOffsetTest, BoundHoldsEvenIfDelaysAreUnequal) {
  for (const int64_t to_own : {0, 100'000}) {
    Barriers barriers;
    barriers.Pass(0, 0, to_own, 100'000 - to_own);
    const ClockOffset offset = OffsetOf(barriers.other, barriers.own).value();
    EXPECT_EQ(offset.max_error_ns, 50'000);
    EXPECT_EQ(std::abs(offset.ns - kAhead), 50'000);  // this is the worst case
  }
}

TEST(ClockOffsetTest, ClockThatLagsHasANegativeOffset) {
  Barriers barriers;
  barriers.Pass(0, 0, 1000, 1000);
  EXPECT_EQ(OffsetOf(barriers.own, barriers.other).value().ns, -kAhead);
}

TEST(ClockOffsetTest, UnequalNumbersOfBarriersAreAnError) {
  const std::vector<Passage> one(1), two(2);
  EXPECT_THAT(OffsetOf(one, two).status(),
              IsError(absl::StatusCode::kInvalidArgument, "clock offset", "got 2 and 1"));
  EXPECT_THAT(OffsetOf({}, {}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "clock offset", "got 0 and 0"));
}

}  // namespace
}  // namespace mirrorflow
