// SPDX-License-Identifier: Apache-2.0
//
// Waiter: lets the threads of one process wait for one another's counters, with a deadline, until
// one of them aborts.
//
// A wait spins, because a running peer answers in less than a microsecond; then it yields, because
// the peer may need this core; then it sleeps on a futex, because the atomic wait of the standard
// library has no deadline. Only Abort and failure take a lock, and only Abort allocates.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_WAITER_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_WAITER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace mirrorflow {

class Waiter {
 public:
  enum class Outcome { kReached, kAborted, kTimedOut };
  using Clock = std::chrono::steady_clock;
  // The time at which a wait gives up. Unset (the clock's zero) until the first wait that does not
  // return at once.
  using Deadline = Clock::time_point;

  Waiter(int num_threads, absl::Duration timeout);

  absl::Duration timeout() const { return timeout_; }

  // `call`, which may be null, is called with the failure by the thread that aborts first. Must be
  // set before the first wait.
  void OnAbort(std::function<void(const absl::Status&)> call) { on_abort_ = std::move(call); }

  // Sets `counter`, which only this thread writes. A thread that sees the value also sees
  // everything that this thread has written before.
  void Publish(std::atomic<uint64_t>* counter, uint64_t value) {
    // Sequentially consistent, as in Sleep: either a thread sees the value before it sleeps, or
    // this one sees the sleeper.
    counter->store(value, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) [[unlikely]]
      Wake();
  }

  // Waits until `counter` is `target` or more.
  Outcome Wait(const std::atomic<uint64_t>& counter, uint64_t target, Deadline* deadline) {
    if (counter.load(std::memory_order_acquire) >= target) [[likely]]
      return Outcome::kReached;
    return WaitLonger(counter, target, deadline);
  }

  // Ends all waits with `why`. The first call counts.
  void Abort(absl::Status why);
  bool aborted() const { return aborted_.load(std::memory_order_seq_cst); }
  // The status of the first Abort. REQUIRES: aborted().
  absl::Status failure() const;

 private:
  Outcome WaitLonger(const std::atomic<uint64_t>& counter, uint64_t target, Deadline* deadline);
  Outcome Sleep(const std::atomic<uint64_t>& counter, uint64_t target, Deadline deadline);
  void Wake();

  const absl::Duration timeout_;
  const Clock::duration spin_;   // from the start of a wait
  const Clock::duration yield_;  // the same
  std::atomic<int> sleepers_{0};
  std::atomic<uint32_t> wakes_{0};  // the futex word: it changes with every wake
  std::atomic<bool> aborted_{false};
  mutable std::mutex mutex_;
  absl::Status failure_;  // guarded by mutex_
  std::function<void(const absl::Status&)> on_abort_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_WAITER_H_
