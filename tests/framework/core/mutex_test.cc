// SPDX-License-Identifier: Apache-2.0
#include "framework/core/mutex.h"

#include <thread>

#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kShort = absl::Milliseconds(20);
constexpr absl::Duration kLong = absl::Minutes(5);

// Returns whether another thread can lock `mu`.
bool IsFree(Mutex& mu) {
  bool is_free = false;
  std::thread([&] {
    if (!mu.TryLock()) return;
    is_free = true;
    mu.Unlock();
  }).join();
  return is_free;
}

TEST(MutexTest, TryLockFailsWhileAnotherThreadHoldsIt) {
  Mutex mu;
  mu.Lock();
  EXPECT_FALSE(IsFree(mu));
  mu.Unlock();
  EXPECT_TRUE(IsFree(mu));
}

TEST(MutexTest, LockIsHeldExceptBetweenUnlockAndLock) {
  Mutex mu;
  {
    MutexLock lock(&mu);
    EXPECT_FALSE(IsFree(mu));
    lock.Unlock();
    EXPECT_TRUE(IsFree(mu));
    lock.Lock();
    EXPECT_FALSE(IsFree(mu));
  }
  EXPECT_TRUE(IsFree(mu));
  {
    MutexLock lock(&mu);
    lock.Unlock();
  }
  EXPECT_TRUE(IsFree(mu));
}

// A flag with a condition variable; another thread sets the flag.
struct Flag {
  Mutex mu;
  CondVar changed;
  bool is_set ABSL_GUARDED_BY(mu) = false;

  void Set() {
    MutexLock lock(&mu);
    is_set = true;
    changed.NotifyAll();
  }
};

TEST(CondVarTest, WaitReturnsWhenConditionBecomesTrue) {
  for (const int wait : {0, 1, 2, 3, 4}) {
    SCOPED_TRACE(wait);
    Flag flag;
    MutexLock lock(&flag.mu);
    std::thread setter([&] { flag.Set(); });  // blocks until the waiting thread releases the mutex
    const auto is_set = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(flag.mu) { return flag.is_set; };
    if (wait == 0) flag.changed.Wait(lock, is_set);
    if (wait == 1) {
      EXPECT_TRUE(flag.changed.WaitFor(lock, kLong, is_set));
    }
    if (wait == 2) {
      EXPECT_TRUE(flag.changed.WaitUntil(lock, MonotonicTime::InfiniteFuture(), is_set));
    }
    while (wait == 3 && !flag.is_set) flag.changed.Wait(lock);
    while (wait == 4 && !flag.is_set) flag.changed.WaitFor(lock, kLong);
    EXPECT_TRUE(flag.is_set);
    lock.Unlock();
    setter.join();
  }
}

TEST(CondVarTest, WaitReturnsAtDeadlineWithMutexHeld) {
  Flag flag;
  MutexLock lock(&flag.mu);
  const auto is_set = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(flag.mu) { return flag.is_set; };
  const MonotonicTime deadline = MonotonicTime::Now() + kShort;
  EXPECT_FALSE(flag.changed.WaitUntil(lock, deadline, is_set));
  EXPECT_GE(MonotonicTime::Now(), deadline);
  const MonotonicTime start = MonotonicTime::Now();
  EXPECT_FALSE(flag.changed.WaitFor(lock, kShort, is_set));
  EXPECT_GE(MonotonicTime::Now() - start, kShort);
  while (MonotonicTime::Now() - start < 2 * kShort) flag.changed.WaitFor(lock, kShort);
  flag.changed.WaitUntil(lock, deadline);  // returns at once, because the deadline has passed
  EXPECT_FALSE(IsFree(flag.mu));
  flag.is_set = true;
  EXPECT_TRUE(flag.changed.WaitUntil(lock, deadline, is_set));
}

}  // namespace
}  // namespace mirrorflow
