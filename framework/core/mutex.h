// SPDX-License-Identifier: Apache-2.0
//
// Mutex, MutexLock and CondVar: those of the standard library, with Clang's thread-safety
// annotations. Every member that a mutex guards is ABSL_GUARDED_BY it, and every function that
// needs the lock says ABSL_EXCLUSIVE_LOCKS_REQUIRED; tools/static_analysis checks both.
//
//   MutexLock lock(&mu_);
//   changed_.Wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return done_; });
//
// They are not absl::Mutex, because ThreadSanitizer instruments std::mutex but not the Abseil of
// Debian.
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

// Holds a mutex from its construction to its destruction, except between Unlock and Lock.
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
  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

  // Releases the lock while it waits. May return without a notification.
  void Wait(MutexLock& lock) { changed_.wait(lock.lock_); }
  void WaitUntil(MutexLock& lock, MonotonicTime deadline) {
    changed_.wait_until(lock.lock_, deadline.ToChrono());
  }
  void WaitFor(MutexLock& lock, absl::Duration d) { WaitUntil(lock, MonotonicTime::Now() + d); }

  // Waits until `condition` is true, or until the deadline. Returns whether it is true. It is
  // evaluated with the lock held, which the analysis cannot see here.
  template <typename Condition>
  void Wait(MutexLock& lock, Condition condition) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    while (!condition()) Wait(lock);
  }
  template <typename Condition>
  bool WaitUntil(MutexLock& lock, MonotonicTime deadline,
                 Condition condition) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return changed_.wait_until(lock.lock_, deadline.ToChrono(), condition);
  }
  template <typename Condition>
  bool WaitFor(MutexLock& lock, absl::Duration d,
               Condition condition) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return WaitUntil(lock, MonotonicTime::Now() + d, condition);
  }

 private:
  std::condition_variable changed_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_MUTEX_H_
