// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/waiter.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <optional>
#include <utility>

namespace mirrorflow {
namespace {

using std::chrono::microseconds;

bool HaveCores(int num_threads) {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) >= num_threads;
}

// Sleeps while `word` is `value`, until it is woken or `deadline` has passed. May wake spuriously.
void FutexWait(const std::atomic<uint32_t>& word, uint32_t value,
               std::chrono::steady_clock::time_point deadline) {
  const int64_t ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count();
  const timespec until = {ns / 1000000000, ns % 1000000000};  // both clocks are CLOCK_MONOTONIC
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, value, &until, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

void FutexWakeAll(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

// Without a core for each thread, spinning keeps the awaited thread from running.
Waiter::Waiter(int num_threads, absl::Duration timeout)
    // Limited, so that the clock's current time plus the timeout does not overflow.
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
  const auto look = [&]() -> std::optional<Outcome> {
    if (counter.load(std::memory_order_seq_cst) >= target) return Outcome::kReached;
    if (aborted()) return Outcome::kAborted;
    if (Clock::now() >= deadline) return Outcome::kTimedOut;
    return std::nullopt;
  };
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  std::optional<Outcome> outcome;
  do {
    // Read before looking: a later wake changes the word, so that the futex does not sleep.
    const uint32_t wakes = wakes_.load(std::memory_order_seq_cst);
    outcome = look();
    if (!outcome) FutexWait(wakes_, wakes, deadline);
  } while (!outcome);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return *outcome;
}

void Waiter::Wake() {
  wakes_.fetch_add(1, std::memory_order_seq_cst);
  FutexWakeAll(wakes_);
}

void Waiter::Abort(absl::Status why) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (aborted()) return;
    failure_ = why.ok() ? absl::AbortedError("aborted without a reason") : std::move(why);
    aborted_.store(true, std::memory_order_seq_cst);
    Wake();
  }
  if (on_abort_) on_abort_(failure_);  // no longer changes
}

absl::Status Waiter::failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

}  // namespace mirrorflow
