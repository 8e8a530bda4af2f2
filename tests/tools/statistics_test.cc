// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/statistics.h"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

TEST(QuantileTest, InterpolatesBetweenSortedValues) {
  EXPECT_EQ(Quantile({}, 0.5), 0);
  EXPECT_EQ(Quantile({4, 1, 2}, 0.5), 2);
  EXPECT_EQ(Quantile({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_EQ(Quantile({10, 0}, 0.25), 2.5);
}

TEST(MeasureInTurnsTest, AlternatesOrderOfSides) {
  std::string order;
  const std::vector<Side> sides = {
      [&](double) -> absl::StatusOr<double> { return order += 'a', 1.0; },
      [&](double) -> absl::StatusOr<double> { return order += 'b', 2.0; },
      [&](double) -> absl::StatusOr<double> { return order += 'c', 4.0; }};
  const auto rounds = MeasureInTurns(sides, {.rounds = 7});
  ASSERT_TRUE(rounds.ok()) << rounds.status();
  EXPECT_EQ(order.substr(0, 12), "abcabccbaabc");  // a warm-up first
  ASSERT_EQ(rounds->ms.size(), 3u);
  EXPECT_EQ(rounds->kept.size(), rounds->ms[0].size());
  EXPECT_GE(rounds->kept.front(), 0);
  EXPECT_LT(rounds->kept.back(), 7);
  for (int side = 0; side < 3; ++side) {
    const Timing timing = TimingOf(*rounds, side);
    EXPECT_EQ(timing.median_ms, 1 << side);
    EXPECT_EQ(timing.iqr_ms, 0);
    EXPECT_EQ(timing.rounds + timing.discarded, 7);
  }
}

TEST(MeasureInTurnsTest, ReturnsErrorOfSide) {
  int calls = 0;
  const Side fails = [&](double) -> absl::StatusOr<double> {
    return ++calls < 3 ? absl::StatusOr<double>(1.0) : absl::InternalError("gone");
  };
  EXPECT_EQ(MeasureInTurns({fails}, {}).status(), absl::InternalError("gone"));
  EXPECT_EQ(calls, 3);
}

TEST(SideOfTest, FillsRoundWithCalls) {
  int calls = 0;
  const Side side = MakeSide([&] { return ++calls, absl::OkStatus(); });
  const auto ms = side(5);
  ASSERT_TRUE(ms.ok()) << ms.status();
  EXPECT_GT(calls, 100);
  EXPECT_LT(*ms, 0.05);
}

TEST(RatioTest, MedianOfPairsLiesWithinInterval) {
  const std::vector<double> ours = {1, 2, 1, 2, 1, 2, 1, 2, 1};
  std::vector<double> theirs;
  for (size_t i = 0; i < ours.size(); ++i) theirs.push_back(ours[i] * (1.2 + 0.01 * (i % 3)));
  // The ratios of pairs agree much better than the figures of either side.
  const Estimate ratio = RatioOf(theirs, ours);
  EXPECT_NEAR(ratio.median, 1.21, 1e-9);
  EXPECT_GE(ratio.low, 1.2 - 1e-9);
  EXPECT_LE(ratio.high, 1.22 + 1e-9);
  EXPECT_LE(ratio.low, ratio.median);
  EXPECT_GE(ratio.high, ratio.median);
}

TEST(RatioTest, IntervalIsWideIfRoundsDisagree) {
  const std::vector<double> ours(8, 1.0), theirs = {1, 2, 1, 2, 1, 2, 1, 2};
  const Estimate ratio = RatioOf(theirs, ours);
  EXPECT_EQ(ratio.low, 1);
  EXPECT_EQ(ratio.high, 2);
}

TEST(VerdictTest, UndecidedIfBoundIsInsideInterval) {
  const Estimate figure = {.median = 1.2, .low = 1.1, .high = 1.3};
  EXPECT_STREQ(VerdictAtLeast(figure, 1.1), "met");
  EXPECT_STREQ(VerdictAtLeast(figure, 1.2), "undecided");
  EXPECT_STREQ(VerdictAtLeast(figure, 1.3), "undecided");
  EXPECT_STREQ(VerdictAtLeast(figure, 1.31), "missed");
  EXPECT_STREQ(VerdictAtMost(figure, 1.3), "met");
  EXPECT_STREQ(VerdictAtMost(figure, 1.2), "undecided");
  EXPECT_STREQ(VerdictAtMost(figure, 1.1), "undecided");
  EXPECT_STREQ(VerdictAtMost(figure, 1.09), "missed");
}

TEST(RunClosedLoopTest, CountsRequestsOfAllClients) {
  std::atomic<int64_t> calls[3] = {};
  const auto load = RunClosedLoop(3, absl::Milliseconds(50), [&](int client) {
    ++calls[client];
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return absl::OkStatus();
  });
  ASSERT_TRUE(load.ok()) << load.status();
  for (const auto& count : calls) EXPECT_GT(count, 0);
  EXPECT_EQ(load->requests, calls[0] + calls[1] + calls[2]);
  EXPECT_GE(load->seconds, 0.05);
  EXPECT_GE(load->p50_ms, 1);
  EXPECT_GE(load->p99_ms, load->p50_ms);
}

TEST(RunClosedLoopTest, LatencyIsMeasuredPerRequest) {
  int calls = 0;
  const auto load = RunClosedLoop(1, absl::Milliseconds(100), [&](int) {
    std::this_thread::sleep_for(std::chrono::milliseconds(++calls % 2 == 0 ? 10 : 1));
    return absl::OkStatus();
  });
  ASSERT_TRUE(load.ok()) << load.status();
  EXPECT_GE(load->p99_ms, 10 * 0.99);
  EXPECT_LE(load->p50_ms, load->seconds * 1e3);
}

TEST(RunClosedLoopTest, CallsAtLeastOnce) {
  const auto load = RunClosedLoop(2, absl::ZeroDuration(), [](int) { return absl::OkStatus(); });
  ASSERT_TRUE(load.ok()) << load.status();
  EXPECT_EQ(load->requests, 2);
}

TEST(RunClosedLoopTest, ErrorOfOneClientStopsAll) {
  std::atomic<int> calls = 0;
  const auto load = RunClosedLoop(2, absl::InfiniteDuration(), [&](int client) {
    return ++calls > 10 && client == 1 ? absl::InternalError("gone") : absl::OkStatus();
  });
  EXPECT_EQ(load.status(), absl::InternalError("gone"));
}

}  // namespace
}  // namespace mirrorflow
