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

#include "framework/runtime/usable_cpus.h"

namespace mirrorflow {
namespace {

using std::chrono::microseconds;

// Returns whether there is a core for each thread. A process can find out only which cores it may
// use itself, so the threads of all processes are checked against the host's cores.
bool HaveCores(Waiter::Threads threads) {
  return NumUsableCpus() >= threads.here && sysconf(_SC_NPROCESSORS_ONLN) >= threads.all;
}

// Sleeps while `word` equals `value`, until woken or until `deadline`. Can wake spuriously. `scope`
// is FUTEX_PRIVATE_FLAG if only threads of this process use the word, and 0 otherwise.
void FutexWait(const std::atomic<uint32_t>& word, int scope, uint32_t value,
               std::chrono::steady_clock::time_point deadline) {
  const int64_t ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count();
  const timespec until = {ns / 1000000000, ns % 1000000000};  // both clocks are CLOCK_MONOTONIC
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | scope, value, &until, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

void FutexWakeAll(const std::atomic<uint32_t>& word, int scope) {
  syscall(SYS_futex, &word, FUTEX_WAKE | scope, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

// Without a core for each thread, spinning keeps the awaited thread from running.
Waiter::Waiter(Shared* shared, Threads threads, absl::Duration timeout)
    : shared_(*shared),
      scope_(threads.here == threads.all ? FUTEX_PRIVATE_FLAG : 0),
      // Capped, so that the clock's current time plus the timeout does not overflow.
      timeout_(std::min(timeout, absl::Hours(24 * 365 * 50))),
      spin_(microseconds(HaveCores(threads) ? 50 : 1)),
      yield_(microseconds(HaveCores(threads) ? 200 : 50)) {}

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
    if (ended()) return Outcome::kEnded;
  }
  return Sleep(counter, target, *deadline);
}

Waiter::Outcome Waiter::Sleep(const std::atomic<uint64_t>& counter, uint64_t target,
                              Deadline deadline) {
  const auto look = [&]() -> std::optional<Outcome> {
    if (counter.load(std::memory_order_seq_cst) >= target) return Outcome::kReached;
    if (ended()) return Outcome::kEnded;
    if (Clock::now() >= deadline) return Outcome::kTimedOut;
    return std::nullopt;
  };
  shared_.sleepers.fetch_add(1, std::memory_order_seq_cst);
  std::optional<Outcome> outcome;
  do {
    // Read before looking: a later wake changes the word, so the futex does not sleep.
    const uint32_t wakes = shared_.wakes.load(std::memory_order_seq_cst);
    outcome = look();
    if (!outcome) FutexWait(shared_.wakes, scope_, wakes, deadline);
  } while (!outcome);
  shared_.sleepers.fetch_sub(1, std::memory_order_relaxed);
  return *outcome;
}

void Waiter::Wake() {
  shared_.wakes.fetch_add(1, std::memory_order_seq_cst);
  FutexWakeAll(shared_.wakes, scope_);
}

void Waiter::End() {
  shared_.ended.store(1, std::memory_order_seq_cst);
  FutexWakeAll(shared_.ended, scope_);
  Wake();
}

void Waiter::WaitForEnd() const {
  while (!ended()) FutexWait(shared_.ended, scope_, 0, Clock::now() + std::chrono::hours(1));
}

}  // namespace mirrorflow
