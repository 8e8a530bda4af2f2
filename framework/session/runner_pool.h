// SPDX-License-Identifier: Apache-2.0
//
// RunnerPool: a reader/writer lock that leases a session's runners to threads. Read-only runs hold
// shared leases, each on a separate runner; all other calls hold an exclusive lease. Leases are
// granted in FIFO order, so no thread starves. The pool prefers the first runner, which always
// exists, and creates the others on demand.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_RUNNER_POOL_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_RUNNER_POOL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/session/step_runner.h"

namespace mirrorflow {

class RunnerPool;

// A lease on a runner, which lasts until End() or destruction.
class RunnerLease {
 public:
  // Created by RunnerPool, which must outlive it.
  RunnerLease(RunnerPool* pool, StepRunner* runner, bool is_exclusive)
      : pool_(pool), runner_(runner), is_exclusive_(is_exclusive) {}
  RunnerLease(RunnerLease&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        runner_(other.runner_),
        is_exclusive_(other.is_exclusive_) {}
  RunnerLease& operator=(RunnerLease&&) = delete;
  ~RunnerLease() { End(); }

  // REQUIRES: the lease has not ended
  StepRunner& runner() const { return *runner_; }
  bool is_exclusive() const { return is_exclusive_; }
  inline void End();

 private:
  RunnerPool* pool_;
  StepRunner* const runner_;
  const bool is_exclusive_;
};

class RunnerPool {
 public:
  using MakeRunner = std::function<absl::StatusOr<std::unique_ptr<StepRunner>>()>;
  struct Options {
    int max_runners = 1;
    // If true, a call fails instead of waiting while another thread holds a lease.
    bool refuse_others = false;
    absl::Duration timeout = absl::Minutes(10);  // for each wait
    // Limit for the total memory of all runners (StepRunner::reserved_bytes).
    int64_t max_bytes = int64_t{1} << 60;
    // Returns how much of `max_bytes` memory that all runners share occupies.
    std::function<int64_t()> shared_bytes = [] { return int64_t{0}; };
  };
  // `make` creates further runners on demand, on the thread that needs one.
  RunnerPool(std::unique_ptr<StepRunner> first, MakeRunner make, const Options& options);

  // Leases a runner for a run that writes nothing. Returns DeadlineExceeded if none becomes free
  // within the timeout, and FailedPrecondition if `refuse_others` is set and the pool is in use.
  absl::StatusOr<RunnerLease> Share() { return Take(kShared); }
  // Waits until no runner is leased and leases the first one exclusively. Returns the same errors
  // as Share.
  absl::StatusOr<RunnerLease> Exclude() { return Take(kExclusive); }

  // Blocks until a run that needs `bytes` and the runs in progress together fit within `max_bytes`,
  // and frees the memory of idle runners if necessary. Grants no other lease in the meantime.
  // Returns immediately if the runner already has that much reserved.
  absl::Status Reserve(const RunnerLease& lease, int64_t bytes) {
    if (bytes <= lease.runner().reserved_bytes()) [[likely]]
      return absl::OkStatus();
    return ReserveMore(lease.runner(), bytes);
  }

  // Called by RunnerLease::End.
  void Return(StepRunner* runner, bool is_exclusive) {
    int own = is_exclusive ? kExclusive : kShared;
    if (word_.compare_exchange_strong(own, 0, std::memory_order_release, std::memory_order_relaxed))
        [[likely]] {
      return;
    }
    ReturnInTurn(runner, is_exclusive);
  }

  // Makes idle runners release the steps that the cache has evicted since the last call.
  void DropEvicted(const StepCache& cache) {
    if (cache.evictions() != evictions_.load(std::memory_order_relaxed)) [[unlikely]]
      DropEvictedNow(cache);
  }

  // Limits a traced session to one lease at a time. REQUIRES: no step is running
  void SetTraced(bool traced);

  // Returns the first runner, for use while no step is running.
  StepRunner& first() const { return *first_; }

 private:
  // Lease kinds.
  static constexpr int kShared = 1;
  static constexpr int kExclusive = 2;

  // Without contention, word_ holds the entire state: 0 if nothing is leased, otherwise the kind of
  // the only lease, which is on the first runner. If word_ is kQueued, the members below hold the
  // state.
  static constexpr int kQueued = 4;

  absl::StatusOr<RunnerLease> Take(int kind) {
    int nobody = 0;
    if (word_.compare_exchange_strong(nobody, kind, std::memory_order_acquire,
                                      std::memory_order_relaxed)) [[likely]] {
      return RunnerLease(this, first_.get(), kind == kExclusive);
    }
    return CatchOutOfMemory([&] { return Queue(kind); });
  }
  absl::StatusOr<RunnerLease> Queue(int kind);
  void ReturnInTurn(StepRunner* runner, bool is_exclusive);
  absl::Status ReserveMore(StepRunner& runner, int64_t bytes);
  void DropEvictedNow(const StepCache& cache);

  // Transfers the state from word_ to the members below.
  void BeginQueue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Transfers the state back to word_ if nothing is leased or queued.
  void EndQueue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayTake(int kind) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns a runner that is not leased, or null.
  StepRunner* FindFree() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsLent(const StepRunner& runner) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether `bytes` fit in addition to what the other runners have reserved. Frees the
  // memory of idle runners if necessary.
  bool MakeRoom(const StepRunner& runner, int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Blocks until the calling thread is first in `line` and `may_go` returns true. Returns false on
  // timeout.
  bool AwaitTurn(MutexLock& lock, std::list<int>& line, int kind, absl::FunctionRef<bool()> may_go)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<StepRunner> first_;
  const MakeRunner make_;
  const Options options_;
  std::atomic<int> word_{0};

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::unique_ptr<StepRunner>> others_ ABSL_GUARDED_BY(mutex_);
  std::vector<const StepRunner*> lent_ ABSL_GUARDED_BY(mutex_);
  int making_ ABSL_GUARDED_BY(mutex_) = 0;  // number of runners under construction
  bool exclusive_ ABSL_GUARDED_BY(mutex_) =
      false;                           // true if the first runner is leased exclusively
  int limit_ ABSL_GUARDED_BY(mutex_);  // maximum number of leases
  // FIFO queues of lease kinds, for the threads that wait for a lease and the leases that wait for
  // memory.
  std::list<int> waiting_ ABSL_GUARDED_BY(mutex_), waiting_for_memory_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> evictions_{0};  // how many cache evictions idle runners have handled
};

inline void RunnerLease::End() {
  if (pool_ != nullptr) std::exchange(pool_, nullptr)->Return(runner_, is_exclusive_);
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_RUNNER_POOL_H_
