// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/thread_progress.h"

#include <sched.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace mirrorflow {
namespace {

// About 10 microseconds of spinning. After that, waits yield, because another thread may need the
// core.
constexpr int kSpins = 200;

// Pauses briefly or, once `turn` reaches kSpins, yields the core.
void Pause(int turn) {
  if (turn >= kSpins) {
    sched_yield();
  } else {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

}  // namespace

absl::Status ThreadProgress::AwaitSlowly(int thread, int other, uint64_t count,
                                         MonotonicTime deadline) const {
  for (int turn = 0;; turn = std::min(turn + 1, kSpins)) {
    if (threads_[other].count.load(std::memory_order_acquire) >= count) return absl::OkStatus();
    if (failed_run_.load(std::memory_order_relaxed) == threads_[thread].runs) {
      return absl::CancelledError("another thread of the replica failed");
    }
    Pause(turn);
    if (turn < kSpins) continue;
    const MonotonicTime now = MonotonicTime::Now();
    if (now > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("the step's deadline passed ", absl::FormatDuration(now - deadline),
                       " ago while thread ", thread, " waited for thread ", other));
    }
  }
}

void ThreadProgress::AwaitEnds(int thread) const {
  const uint64_t run = threads_[thread].runs;
  for (const Thread& other : threads_) {
    if (&other == &threads_[thread]) continue;
    for (int turn = 0; other.ended.load(std::memory_order_acquire) < run;
         turn = std::min(turn + 1, kSpins)) {
      Pause(turn);
    }
  }
}

}  // namespace mirrorflow
