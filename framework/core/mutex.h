// SPDX-License-Identifier: Apache-2.0
//
// Mutex, MutexLock and CondVar: thin wrappers around standard types that carry Clang's
// thread-safety annotations. Annotate every guarded member with ABSL_GUARDED_BY, and every function
// that needs the lock with ABSL_EXCLUSIVE_LOCKS_REQUIRED; tools/static_analysis checks both.
//
//   MutexLock lock(&mu_);
//   changed_.Wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return done_; });
//
// These wrap std::mutex rather than absl::Mutex: Debian builds Abseil without instrumentation, so
// ThreadSanitizer does not understand its absl::Mutex.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_MUTEX_H_
#define MIRRORFLOW_FRAMEWORK_CORE_MUTEX_H_

#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mu_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mu_.unlock(); }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mu_.try_lock(); }

 private:
  friend class MutexLock;
  std::mutex mu_;
};

// Holds a mutex for its lifetime, except between Unlock() and Lock().
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : lock_(mu->mu_) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {}
  void Unlock() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { lock_.lock(); }

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

class CondVar {
 public:
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

  // Releases the lock while waiting. May wake up spuriously.
  void Wait(MutexLock& lock) { cv_.wait(lock.lock_); }
  void WaitUntil(MutexLock& lock, MonotonicTime deadline) {
    cv_.wait_until(lock.lock_, deadline.ToChrono());
  }
  void WaitFor(MutexLock& lock, absl::Duration d) { WaitUntil(lock, MonotonicTime::Now() + d); }

  // Waits until `condition` is true or the deadline has passed. Returns whether it is true.
  // Evaluates `condition` with the lock held, which the analysis cannot see here.
  template <typename Condition>
  void Wait(MutexLock& lock, Condition condition) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    while (!condition()) Wait(lock);
  }
  template <typename Condition>
  bool WaitUntil(MutexLock& lock, MonotonicTime deadline,
                 Condition condition) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return cv_.wait_until(lock.lock_, deadline.ToChrono(), condition);
  }
  template <typename Condition>
  bool WaitFor(MutexLock& lock, absl::Duration d,
               Condition condition) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return WaitUntil(lock, MonotonicTime::Now() + d, condition);
  }

 private:
  std::condition_variable cv_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_MUTEX_H_
