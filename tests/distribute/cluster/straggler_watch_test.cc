// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/straggler_watch.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "framework/core/monotonic_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// How a worker spends each step, in seconds.
struct Load {
  double computes, between;
};

// Simulates synchronous workers: each step takes as long as the slowest worker needs, and the other
// workers wait for the remaining time.
class StragglerWatchTest : public testing::Test {
 protected:
  // Runs steps for `duration`. Returns the stragglers that were found.
  std::vector<StragglerWatch::Straggler> Run(const std::vector<Load>& workers,
                                             absl::Duration duration) {
    std::vector<StragglerWatch::Straggler> found;
    heartbeats_.resize(workers.size());
    for (const MonotonicTime end = now_ + duration; now_ < end;) {
      double step = 0;
      for (const Load& load : workers) step = std::max(step, load.computes + load.between);
      now_ += absl::Seconds(step);
      for (size_t w = 0; w < workers.size(); ++w) {
        coordination::Heartbeat& heartbeat = heartbeats_[w];
        const auto us = [](double seconds) { return static_cast<int64_t>(1e6 * seconds); };
        heartbeat.set_runs(heartbeat.runs() + 1);
        heartbeat.set_in_runs_us(heartbeat.in_runs_us() + us(step - workers[w].between));
        heartbeat.set_waited_us(heartbeat.waited_us() +
                                us(step - workers[w].between - workers[w].computes));
        watch_.Beat(static_cast<int>(w), heartbeat, now_);
      }
      if (auto straggler = watch_.Find(now_)) found.push_back(*straggler);
    }
    return found;
  }

  StragglerWatch watch_;
  std::vector<coordination::Heartbeat> heartbeats_;
  MonotonicTime now_ = MonotonicTime::Now();
};

TEST_F(StragglerWatchTest, SlowestWorkerIsNamedOncePerMinute) {
  const auto found = Run({{0.05, 0.01}, {0.05, 0.01}, {0.09, 0.01}, {0.05, 0.01}},
                         absl::Minutes(3) + absl::Seconds(10));
  ASSERT_EQ(found.size(), 3u);
  for (const StragglerWatch::Straggler& straggler : found) {
    EXPECT_EQ(straggler.worker, 2);
    EXPECT_NEAR(straggler.cost, 0.4, 0.01);
    EXPECT_NEAR(absl::ToDoubleSeconds(straggler.computed), 54, 1);
    EXPECT_NEAR(absl::ToDoubleSeconds(straggler.between), 6, 1);
    EXPECT_NEAR(absl::ToDoubleSeconds(straggler.waited), 0, 1);
    EXPECT_NEAR(absl::ToDoubleSeconds(straggler.median_waited), 24, 1);
    EXPECT_THAT(straggler.Text(), AllOf(HasSubstr("straggler"), HasSubstr("40 %")));
  }
}

TEST_F(StragglerWatchTest, OneOfTwoWorkersIsComparedWithOther) {
  const auto found = Run({{0.05, 0}, {0.04, 0}}, absl::Seconds(70));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].worker, 0);
  EXPECT_NEAR(found[0].cost, 0.2, 0.01);
}

TEST_F(StragglerWatchTest, SlowInputIsReported) {
  const auto found = Run({{0.05, 0.01}, {0.05, 0.03}, {0.05, 0.01}}, absl::Seconds(70));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].worker, 1);
  EXPECT_NEAR(found[0].cost, 0.25, 0.01);
}

TEST_F(StragglerWatchTest, SmallDifferencesAndSlowMajoritiesAreNotReported) {
  EXPECT_TRUE(Run({{0.050, 0}, {0.048, 0}, {0.046, 0}}, absl::Minutes(3)).empty());
  // Removing only one of the two slow workers does not shorten the steps.
  EXPECT_TRUE(Run({{0.09, 0}, {0.09, 0}, {0.05, 0}}, absl::Minutes(3)).empty());
}

TEST_F(StragglerWatchTest, LongStepsLengthenIntervals) {
  const std::vector<Load> load = {{5, 0}, {12, 0}};
  EXPECT_TRUE(Run(load, absl::Seconds(118)).empty());
  EXPECT_EQ(Run(load, absl::Seconds(120)).size(), 1u);
}

// Only one worker runs steps: it evaluates the model.
TEST_F(StragglerWatchTest, StepsOfOneWorkerAloneAreNotCompared) {
  Run({{0.05, 0}, {0.05, 0}}, absl::Seconds(60.2));
  now_ += absl::Minutes(2);
  heartbeats_[0].set_runs(heartbeats_[0].runs() + 100);
  heartbeats_[0].set_waited_us(heartbeats_[0].waited_us() + 60'000'000);
  for (int w = 0; w < 2; ++w) watch_.Beat(w, heartbeats_[w], now_);
  EXPECT_FALSE(watch_.Find(now_).has_value());
}

TEST_F(StragglerWatchTest, NewSessionStartsNewInterval) {
  EXPECT_TRUE(Run({{0.09, 0}, {0.05, 0}}, absl::Seconds(50)).empty());
  heartbeats_.clear();
  EXPECT_TRUE(Run({{0.05, 0}, {0.09, 0}}, absl::Seconds(50)).empty());
  const auto found = Run({{0.05, 0}, {0.09, 0}}, absl::Seconds(20));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].worker, 1);
}

// By its first heartbeat, the new session has run more steps than the first session in total.
TEST_F(StragglerWatchTest, ShortFirstSessionIsRecognised) {
  Run({{0.05, 50}, {0.05, 0}}, absl::Seconds(40));
  heartbeats_.clear();
  EXPECT_TRUE(Run({{0.05, 0}, {0.05, 0}}, absl::Minutes(3)).empty());
}

TEST_F(StragglerWatchTest, WorkerThatHasLeftIsForgotten) {
  EXPECT_TRUE(Run({{0.05, 0}, {0.05, 0}, {0.09, 0}}, absl::Seconds(50)).empty());
  watch_.Remove(2);
  EXPECT_TRUE(Run({{0.05, 0}, {0.05, 0}}, absl::Seconds(70)).empty());
}

}  // namespace
}  // namespace mirrorflow
