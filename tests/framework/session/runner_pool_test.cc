// SPDX-License-Identifier: Apache-2.0
#include "framework/session/runner_pool.h"

#include <atomic>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/session_parts.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kSoon = absl::Milliseconds(50);

class RunnerPoolTest : public testing::Test {
 protected:
  RunnerPool& Start(const RunnerPool::Options& options) {
    return pool_.emplace(
        std::move(parts_.runner),
        [this]() -> absl::StatusOr<std::unique_ptr<StepRunner>> {
          if (fails_) return absl::ResourceExhaustedError("no memory for a runner");
          ++num_made_;
          return parts_.NewRunner();
        },
        options);
  }

  SessionParts parts_{Graph()};
  std::atomic<int> num_made_{0};
  std::atomic<bool> fails_{false};
  std::optional<RunnerPool> pool_;
};

TEST_F(RunnerPoolTest, SingleThreadAlwaysGetsFirstRunner) {
  RunnerPool& pool = Start({.max_runners = 4});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(&pool.Share()->runner(), &pool.first());
    EXPECT_EQ(&pool.Exclude()->runner(), &pool.first());
  }
  EXPECT_EQ(num_made_, 0);
}

TEST_F(RunnerPoolTest, ConcurrentReadersGetDistinctRunnersUpToLimit) {
  RunnerPool& pool = Start({.max_runners = 2, .timeout = kSoon});
  {
    const auto one = pool.Share(), two = pool.Share();
    ASSERT_TRUE(one.ok() && two.ok());
    EXPECT_NE(&one->runner(), &two->runner());
    const absl::Status third = pool.Share().status();
    EXPECT_THAT(third, IsError(absl::StatusCode::kDeadlineExceeded, "2 in progress"));
    EXPECT_THAT(pool.Exclude().status(),
                IsError(absl::StatusCode::kDeadlineExceeded, "2 in progress"));
  }
  const auto one = pool.Share(), two = pool.Share();
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(num_made_, 1);
}

TEST_F(RunnerPoolTest, WriterWaitsForReadersAndBlocksLaterReaders) {
  RunnerPool& pool = Start({.max_runners = 4});
  std::optional<absl::StatusOr<RunnerLease>> reader = pool.Share();
  ASSERT_TRUE(reader->ok());
  std::atomic<bool> writes{false}, has_written{false};
  std::thread writer([&] {
    const auto lease = pool.Exclude();
    ASSERT_TRUE(lease.ok());
    writes = true;
    absl::SleepFor(kSoon);
    has_written = true;
  });
  absl::SleepFor(kSoon);
  EXPECT_FALSE(writes);
  std::thread later([&] {
    const auto lease = pool.Share();
    ASSERT_TRUE(lease.ok());
    EXPECT_TRUE(has_written);
  });
  absl::SleepFor(kSoon);
  EXPECT_FALSE(writes);
  reader.reset();
  writer.join();
  later.join();
  EXPECT_TRUE(has_written);
}

TEST_F(RunnerPoolTest, SecondThreadIsRejectedWhenCallsMustBeOrdered) {
  RunnerPool& pool = Start({.refuse_others = true});
  {
    const auto lease = pool.Share();
    EXPECT_THAT(pool.Share().status(),
                IsError(absl::StatusCode::kFailedPrecondition, "session", "another thread"));
    EXPECT_THAT(pool.Exclude().status(),
                IsError(absl::StatusCode::kFailedPrecondition, "session", "another thread"));
  }
  EXPECT_TRUE(pool.Exclude().ok());
}

TEST_F(RunnerPoolTest, TracedPoolLendsOneRunnerAtATime) {
  RunnerPool& pool = Start({.max_runners = 4, .timeout = kSoon});
  pool.SetTraced(true);
  {
    const auto lease = pool.Share();
    EXPECT_THAT(pool.Share().status(),
                IsError(absl::StatusCode::kDeadlineExceeded, "1 in progress"));
  }
  pool.SetTraced(false);
  const auto one = pool.Share(), two = pool.Share();
  EXPECT_TRUE(one.ok() && two.ok());
}

TEST_F(RunnerPoolTest, RunnerCreationErrorFailsOnlyItsThread) {
  RunnerPool& pool = Start({.max_runners = 4});
  fails_ = true;
  {
    const auto lease = pool.Share();
    EXPECT_THAT(pool.Share().status(), IsError(absl::StatusCode::kResourceExhausted, "memory"));
  }
  EXPECT_TRUE(pool.Exclude().ok());
}

TEST_F(RunnerPoolTest, RunWaitsUntilItsMemoryFits) {
  RunnerPool& pool = Start({.max_runners = 4, .timeout = absl::Seconds(60), .max_bytes = 100});
  std::optional<absl::StatusOr<RunnerLease>> one = pool.Share();
  ASSERT_EQ(pool.Reserve(**one, 70), absl::OkStatus());
  absl::Notification has_room;
  std::thread other([&] {
    const auto two = pool.Share();
    ASSERT_EQ(pool.Reserve(*two, 30), absl::OkStatus());
    ASSERT_EQ(pool.Reserve(*two, 40), absl::OkStatus());
    has_room.Notify();
  });
  EXPECT_FALSE(has_room.WaitForNotificationWithTimeout(kSoon));
  one.reset();
  other.join();
  // Idle runners' memory is freed first.
  const auto lease = pool.Exclude();
  EXPECT_EQ(pool.Reserve(*lease, 100), absl::OkStatus());
  EXPECT_EQ(lease->runner().reserved_bytes(), 100);
}

// A stream of small runs must not starve a large one.
TEST_F(RunnerPoolTest, RunWaitingForMemoryIsNotStarved) {
  RunnerPool& pool = Start({.max_runners = 4, .timeout = absl::Seconds(60), .max_bytes = 100});
  std::atomic<bool> done{false};
  std::atomic<int> small_runs{0};
  std::vector<std::thread> small;
  for (int t = 0; t < 3; ++t) {
    small.emplace_back([&] {
      while (!done) {
        const auto lease = pool.Share();
        ASSERT_TRUE(lease.ok()) << lease.status();
        ASSERT_EQ(pool.Reserve(*lease, 30), absl::OkStatus());
        absl::SleepFor(absl::Milliseconds(2));
        ++small_runs;
      }
    });
  }
  absl::SleepFor(kSoon);
  for (int i = 0; i < 5; ++i) {
    const auto lease = pool.Share();
    ASSERT_TRUE(lease.ok()) << lease.status();
    const int before = small_runs;
    ASSERT_EQ(pool.Reserve(*lease, 90), absl::OkStatus());
    EXPECT_LE(small_runs - before, 3);
  }
  done = true;
  for (std::thread& thread : small) thread.join();
}

TEST_F(RunnerPoolTest, RunnerCreationExceptionFailsOnlyItsThread) {
  RunnerPool pool(parts_.NewRunner(),
                  []() -> absl::StatusOr<std::unique_ptr<StepRunner>> { throw std::bad_alloc(); },
                  {.max_runners = 4});
  {
    const auto lease = pool.Share();
    EXPECT_THAT(pool.Share().status(), IsError(absl::StatusCode::kResourceExhausted, "memory"));
  }
  EXPECT_TRUE(pool.Exclude().ok());
}

TEST_F(RunnerPoolTest, WaitForMemoryTimesOut) {
  RunnerPool& pool = Start({.max_runners = 4, .timeout = kSoon, .max_bytes = 100});
  const auto one = pool.Share(), two = pool.Share();
  ASSERT_EQ(pool.Reserve(*one, 70), absl::OkStatus());
  const absl::Status status = pool.Reserve(*two, 40);
  EXPECT_THAT(status, IsError(absl::StatusCode::kDeadlineExceeded, "40 bytes"));
}

// Even under contention, an exclusive lease must never overlap another lease.
TEST_F(RunnerPoolTest, WriterNeverOverlapsOtherThreads) {
  constexpr int kThreads = 8, kMaxRunners = 3;
  RunnerPool& pool = Start({.max_runners = kMaxRunners, .timeout = absl::Minutes(5)});
  std::atomic<int> readers{0}, writers{0}, runs{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const bool writes = (i * 7 + t) % 11 == 0;
        const auto lease = writes ? pool.Exclude() : pool.Share();
        ASSERT_TRUE(lease.ok()) << lease.status();
        (writes ? writers : readers)++;
        EXPECT_LE(readers, kMaxRunners);
        EXPECT_LE(writers, 1);
        EXPECT_TRUE(writers == 0 || readers == 0);
        if (i % 16 == 0) std::this_thread::yield();
        (writes ? writers : readers)--;
        ++runs;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runs, kThreads * 300);
  EXPECT_LT(num_made_, kMaxRunners);
  EXPECT_EQ(&pool.Share()->runner(), &pool.first());
}

}  // namespace
}  // namespace mirrorflow
