// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/thread_progress.h"

#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

MonotonicTime In(absl::Duration time) { return MonotonicTime::Now() + time; }

testing::Matcher<const absl::Status&> IsLate(absl::string_view thread) {
  return IsError(absl::StatusCode::kDeadlineExceeded, thread, "deadline");
}

TEST(ThreadProgressTest, ThreadsTakeTurns) {
  constexpr int kThreads = 3, kRuns = 200, kTurns = 20;
  ThreadProgress progress(kThreads, kTurns);
  std::vector<int> turns;  // synchronised only by `progress`
  const auto run = [&](int thread) {
    for (int r = 0; r < kRuns; ++r) {
      progress.Begin(thread);
      if (thread == 0) progress.Advance(0, 0);
      for (int turn = 0; turn < kTurns; ++turn) {
        // Thread 0 begins; each thread waits for the one before it.
        const int other = (thread + kThreads - 1) % kThreads;
        const int entries = thread == 0 ? turn : turn + 1;
        if (thread > 0 || turn > 0) {
          EXPECT_TRUE(progress.Await(thread, other, entries, In(absl::Minutes(1))).ok());
        }
        turns.push_back(thread);
        progress.Advance(thread, turn + 1);
      }
      progress.End(thread, /*failed=*/false);
      progress.AwaitEnds(thread);
    }
  };
  std::thread first(run, 1), second(run, 2);
  run(0);
  first.join();
  second.join();
  ASSERT_EQ(turns.size(), kThreads * kRuns * kTurns);
  for (size_t i = 0; i < turns.size(); ++i) ASSERT_EQ(turns[i], i % kThreads) << i;
}

TEST(ThreadProgressTest, CountsOfTheLastRunDoNotCount) {
  ThreadProgress progress(2, 5);
  for (int thread = 0; thread < 2; ++thread) {
    progress.Begin(thread);
    progress.Advance(thread, 5);
    progress.End(thread, /*failed=*/false);
  }
  progress.Begin(1);
  EXPECT_THAT(progress.Await(1, 0, 0, In(absl::Milliseconds(20))), IsLate("thread 0"));
  progress.Begin(0);
  progress.Advance(0, 0);
  EXPECT_TRUE(progress.Await(1, 0, 0, In(absl::ZeroDuration())).ok());
  EXPECT_THAT(progress.Await(1, 0, 1, In(absl::Milliseconds(20))), IsLate("thread 0"));
}

TEST(ThreadProgressTest, FailureEndsWaitsOfTheSameRunOnly) {
  ThreadProgress progress(2, 5);
  progress.Begin(0);
  progress.End(0, /*failed=*/true);
  progress.Begin(1);
  progress.End(1, /*failed=*/true);
  progress.AwaitEnds(0);
  progress.Begin(0);
  progress.Begin(1);
  EXPECT_THAT(progress.Await(0, 1, 1, In(absl::Milliseconds(20))), IsLate("thread 1"));
}

TEST(ThreadProgressTest, WaitForThreadThatFailedIsCancelled) {
  ThreadProgress progress(3, 5);
  for (int thread = 0; thread < 3; ++thread) progress.Begin(thread);
  progress.End(2, /*failed=*/true);
  for (const int other : {1, 2}) {
    EXPECT_THAT(progress.Await(0, other, 1, In(absl::Minutes(1))),
                IsError(absl::StatusCode::kCancelled, "thread", "failed"));
  }
}

}  // namespace
}  // namespace mirrorflow
