// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/run_progress.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

TEST(CollectiveLogTest, KeepsTheLatestCollectives) {
  CollectiveLog log;
  for (int step = 1; step <= 30; ++step) {
    log.BeginStep(step);
    for (int i = 0; i < 3; ++i) {
      log.Start(i, absl::StrCat("step ", step, ", ", i));
      if (step < 30) log.Finish();
    }
  }
  log.Finish();
  const std::vector<CollectiveLog::Entry> latest = log.Latest();
  ASSERT_EQ(latest.size(), CollectiveLog::kSize);
  EXPECT_EQ(latest.front().number, 90 - CollectiveLog::kSize + 1);
  EXPECT_EQ(latest.back().number, 90u);
  EXPECT_EQ(latest.back().step, 30u);
  EXPECT_EQ(latest.back().sequence, 2);
  EXPECT_EQ(latest.back().name, "step 30, 2");
  EXPECT_FALSE(latest.back().finished);
  EXPECT_TRUE(latest[latest.size() - 3].finished);
}

TEST(CollectiveLogTest, LongNamesAreTruncated) {
  CollectiveLog log;
  log.Start(0, std::string(1000, 'x'));
  const std::string name = log.Latest()[0].name;
  EXPECT_GT(name.size(), 80u);
  EXPECT_EQ(name, std::string(name.size(), 'x'));
}

TEST(CollectiveLogTest, MayBeReadDuringWrites) {
  CollectiveLog log;
  std::thread writer([&log] {
    for (int i = 0; i < 20'000; ++i) {
      log.Start(i % 7, "a name");
      log.Finish();
    }
  });
  while (log.finished() < 20'000) {
    for (const CollectiveLog::Entry& entry : log.Latest()) EXPECT_LT(entry.sequence, 7);
  }
  writer.join();
}

TEST(RunProgressTest, PositionIsThatOfSlowestReplica) {
  RunProgress progress(2);
  EXPECT_FALSE(progress.position().running);
  {
    const RunProgress::Run run(progress, 17);
    progress.log(0)->Start(0, "first");
    progress.log(0)->Start(1, "second");
    progress.log(1)->Start(0, "first");
    const RunProgress::Position at = progress.position();
    EXPECT_TRUE(at.running);
    EXPECT_EQ(at.step, 17u);
    EXPECT_EQ(at.runs, 1u);
    EXPECT_EQ(at.collectives, 1u);
    EXPECT_EQ(at.finished, 0u);
    EXPECT_EQ(at.collective, "first");
  }
  EXPECT_FALSE(progress.position().running);
}

TEST(RunProgressTest, WaitsAreTimedOnRequest) {
  RunProgress progress(2);
  const auto wait = [](CollectiveLog& log) {
    const CollectiveLog::Wait wait(log);
    EXPECT_TRUE(log.may_wait());
    MonotonicTime::AdvanceForTest(absl::Seconds(10));
  };
  wait(*progress.log(0));
  EXPECT_EQ(progress.waited(), absl::ZeroDuration());
  EXPECT_FALSE(progress.log(0)->may_wait());
  progress.TimeRunsAndWaits();
  wait(*progress.log(0));
  EXPECT_GE(progress.waited(), absl::Seconds(5));  // the mean of both replicas
  EXPECT_LT(progress.waited(), absl::Seconds(6));
}

TEST(RunProgressTest, RunsAreTimedOnRequest) {
  RunProgress progress(1);
  const auto run = [&] {
    const RunProgress::Run run(progress, 1);
    MonotonicTime::AdvanceForTest(absl::Seconds(10));
  };
  run();
  EXPECT_EQ(progress.in_runs(), absl::ZeroDuration());
  progress.TimeRunsAndWaits();
  run();
  EXPECT_GE(progress.in_runs(), absl::Seconds(10));
  EXPECT_LT(progress.in_runs(), absl::Seconds(20));
}

TEST(RunProgressTest, DeviceThatWorksAheadMayAlwaysWait) {
  RunProgress progress(1);
  EXPECT_FALSE(progress.slowest_may_wait());
  progress.log(0)->SetWorksAhead();
  progress.TimeRunsAndWaits();
  { const CollectiveLog::Wait wait(*progress.log(0)); }
  EXPECT_TRUE(progress.slowest_may_wait());
  EXPECT_EQ(progress.waited(), absl::ZeroDuration());
}

TEST(RunProgressTest, OnlyWaitOfSlowestReplicaCounts) {
  RunProgress progress(2);
  progress.log(0)->Start(0, "first");
  const CollectiveLog::Wait wait(*progress.log(0));
  EXPECT_FALSE(progress.slowest_may_wait());  // replica 1 has not started
  progress.log(1)->Start(0, "first");
  EXPECT_FALSE(progress.slowest_may_wait());  // replica 1 is still computing
  progress.log(1)->Finish();
  EXPECT_TRUE(progress.slowest_may_wait());
}

}  // namespace
}  // namespace mirrorflow
