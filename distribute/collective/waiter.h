// SPDX-License-Identifier: Apache-2.0
//
// Waiter: lets the threads of a team wait for one another's counters, with a deadline, until one of
// them ends all waits. The threads may be in several processes that share memory.
//
// A wait spins, because a running peer answers in less than a microsecond; then it yields, because
// the peer may need this core; then it sleeps on a futex, because the atomic wait of the standard
// library has no deadline and does not cross processes. Nothing takes a lock, so that a process
// that is killed cannot block the others.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_WAITER_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_WAITER_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/time/time.h"

namespace mirrorflow {

class Waiter {
 public:
  enum class Outcome { kReached, kEnded, kTimedOut };
  using Clock = std::chrono::steady_clock;
  // The time at which a wait gives up. Unset (the clock's zero) until the first wait that does not
  // return at once.
  using Deadline = Clock::time_point;

  // State that the threads share; zeroed memory at first.
  struct Shared {
    std::atomic<int> sleepers{0};
    std::atomic<uint32_t> wakes{0};  // the futex word: it changes with every wake
    std::atomic<uint32_t> ended{0};  // 1 at the end; a futex word of its own
  };

  // The threads of this process, and of all processes that use `shared`.
  struct Threads {
    int here = 1;
    int all = 1;
  };
  // `shared` outlives the Waiter.
  Waiter(Shared* shared, Threads threads, absl::Duration timeout);

  absl::Duration timeout() const { return timeout_; }

  // Sets `counter`, which only this thread writes. A thread that sees the value also sees
  // everything that this thread has written before.
  void Publish(std::atomic<uint64_t>* counter, uint64_t value) {
    // Sequentially consistent, as in Sleep: either a thread sees the value before it sleeps, or
    // this one sees the sleeper.
    counter->store(value, std::memory_order_seq_cst);
    if (shared_.sleepers.load(std::memory_order_seq_cst) > 0) [[unlikely]]
      Wake();
  }

  // Waits until `counter` is `target` or more.
  Outcome Wait(const std::atomic<uint64_t>& counter, uint64_t target, Deadline* deadline) {
    if (counter.load(std::memory_order_acquire) >= target) [[likely]]
      return Outcome::kReached;
    return WaitLonger(counter, target, deadline);
  }

  // Ends all waits of all threads, also later ones.
  void End();
  bool ended() const { return shared_.ended.load(std::memory_order_seq_cst) != 0; }
  // Sleeps until some thread has called End. Costs the other threads nothing.
  void WaitForEnd() const;

 private:
  Outcome WaitLonger(const std::atomic<uint64_t>& counter, uint64_t target, Deadline* deadline);
  Outcome Sleep(const std::atomic<uint64_t>& counter, uint64_t target, Deadline deadline);
  void Wake();

  Shared& shared_;
  const int scope_;  // of the futex: this process, or all that share its memory
  const absl::Duration timeout_;
  const Clock::duration spin_;   // from the start of a wait
  const Clock::duration yield_;  // the same
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_WAITER_H_
