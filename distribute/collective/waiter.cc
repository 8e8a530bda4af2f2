// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/waiter.h"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <utility>

namespace mirrorflow {
namespace {

using std::chrono::microseconds;

bool HaveCores(int num_threads) {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) >= num_threads;
}

}  // namespace

// Without a core for each thread, spinning keeps the one that is waited for from running.
Waiter::Waiter(int num_threads, absl::Duration timeout)
    // What no process lives to see is cut to what the clock can still add to its now.
    : timeout_(std::min(timeout, absl::Hours(24 * 365 * 50))),
      spin_(microseconds(HaveCores(num_threads) ? 50 : 1)),
      yield_(microseconds(HaveCores(num_threads) ? 200 : 50)) {}

Waiter::Outcome Waiter::WaitLonger(const std::atomic<uint64_t>& counter, uint64_t target,
                                   Deadline* deadline) {
  const auto reached = [&] { return counter.load(std::memory_order_acquire) >= target; };
  const auto reached_soon = [&] {
    for (int i = 0; i < 32 && !reached(); ++i) _mm_pause();
    return reached();
  };
  if (reached_soon()) return Outcome::kReached;
  const Clock::time_point start = Clock::now();
  if (*deadline == Deadline()) *deadline = start + absl::ToChronoNanoseconds(timeout_);
  for (Clock::time_point now = start; now < start + yield_; now = Clock::now()) {
    if (now >= start + spin_) sched_yield();
    if (reached_soon()) return Outcome::kReached;
    if (aborted()) return Outcome::kAborted;
  }
  return Sleep(counter, target, *deadline);
}

Waiter::Outcome Waiter::Sleep(const std::atomic<uint64_t>& counter, uint64_t target,
                              Deadline deadline) {
  const auto reached = [&] { return counter.load(std::memory_order_seq_cst) >= target; };
  std::unique_lock<std::mutex> lock(mutex_);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  woken_.wait_until(lock, deadline, [&] { return aborted() || reached(); });
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  if (reached()) return Outcome::kReached;
  return aborted() ? Outcome::kAborted : Outcome::kTimedOut;
}

void Waiter::Wake() {
  // A sleeper holds the mutex from its last look at the counter until it sleeps.
  std::lock_guard<std::mutex> lock(mutex_);
  woken_.notify_all();
}

void Waiter::Abort(absl::Status why) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (aborted()) return;
  failure_ = why.ok() ? absl::AbortedError("aborted without a reason") : std::move(why);
  aborted_.store(true, std::memory_order_seq_cst);
  woken_.notify_all();
}

absl::Status Waiter::failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

}  // namespace mirrorflow
