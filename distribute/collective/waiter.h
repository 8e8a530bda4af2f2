// SPDX-License-Identifier: Apache-2.0
//
// Waiter: lets the threads of a team wait, with a deadline, for one another's counters. Any thread
// can end all waits. The threads can be in several processes that share memory.
//
// A wait spins, because a running peer answers in less than a microsecond; then it yields, because
// the peer may need this core; then it sleeps on a futex, because the atomic wait of the standard
// library has no deadline and does not cross processes. It takes no locks, so a process that is
// killed cannot block the others.
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
  // When a wait times out. Unset (the clock's zero) until the first wait that does not return at
  // once.
  using Deadline = Clock::time_point;

  // State that the threads share, initially zeroed.
  struct Shared {
    std::atomic<int> sleepers{0};
    std::atomic<uint32_t> wakes{0};  // the futex word: it changes with every wake
    std::atomic<uint32_t> ended{0};  // 1 once all waits have ended; a separate futex word
  };

  // How many threads use `shared`: in this process, and in all processes.
  struct Threads {
    int here = 1;
    int all = 1;
  };
  // `shared` must outlive the Waiter.
  Waiter(Shared* shared, Threads threads, absl::Duration timeout);

  absl::Duration timeout() const { return timeout_; }

  // Sets `counter`, which only this thread writes. A thread that sees the value also sees all
  // earlier writes of this thread.
  void Publish(std::atomic<uint64_t>* counter, uint64_t value) {
    // Sequentially consistent, as in Sleep: either a thread sees the value before it sleeps, or
    // this one sees the sleeper.
    counter->store(value, std::memory_order_seq_cst);
    if (shared_.sleepers.load(std::memory_order_seq_cst) > 0) [[unlikely]]
      Wake();
  }

  // Blocks until `counter` is at least `target`.
  Outcome Wait(const std::atomic<uint64_t>& counter, uint64_t target, Deadline* deadline) {
    if (counter.load(std::memory_order_acquire) >= target) [[likely]]
      return Outcome::kReached;
    return WaitLonger(counter, target, deadline);
  }

  // Ends all current and future waits of all threads.
  void End();
  bool ended() const { return shared_.ended.load(std::memory_order_seq_cst) != 0; }
  // Blocks until a thread has called End, at no cost to the other threads.
  void WaitForEnd() const;

 private:
  Outcome WaitLonger(const std::atomic<uint64_t>& counter, uint64_t target, Deadline* deadline);
  Outcome Sleep(const std::atomic<uint64_t>& counter, uint64_t target, Deadline deadline);
  void Wake();

  Shared& shared_;
  const int scope_;  // futex scope: this process, or all processes that share its memory
  const absl::Duration timeout_;
  const Clock::duration spin_;   // measured from the start of a wait
  const Clock::duration yield_;  // also measured from the start of a wait
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_WAITER_H_
