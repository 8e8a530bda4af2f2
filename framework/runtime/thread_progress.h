// SPDX-License-Identifier: Apache-2.0
//
// ThreadProgress: synchronises the threads of a replica during a run. Each thread publishes how
// many entries of its dispatch list it has run, and other threads wait for that count. Waits spin,
// because they seldom last longer than a few microseconds.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_THREAD_PROGRESS_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_THREAD_PROGRESS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

class ThreadProgress {
 public:
  // `num_entries` is the length of the longest dispatch list.
  ThreadProgress(int num_threads, int num_entries)
      : entries_per_run_(static_cast<uint64_t>(num_entries) + 1), threads_(num_threads) {}

  // Starts the next run of `thread`. All threads take part in every run.
  void Begin(int thread) { ++threads_[thread].runs; }
  // Records that `thread` has run `entries` entries of its dispatch list. Thread 0 records 0
  // entries once the run's memory is ready.
  void Advance(int thread, int entries) {
    threads_[thread].count.store(CountAt(thread, entries), std::memory_order_release);
  }
  // Ends the thread's run. If `failed` is true, pending and later waits of the other threads in
  // this run return Cancelled, unless the entries they wait for have already run.
  void End(int thread, bool failed) {
    if (failed) failed_run_.store(threads_[thread].runs, std::memory_order_relaxed);
    threads_[thread].ended.store(threads_[thread].runs, std::memory_order_release);
  }

  // Blocks `thread` until `other` has recorded `entries` entries. Returns DeadlineExceeded after
  // the deadline, or Cancelled if another thread failed in this run.
  absl::Status Await(int thread, int other, int entries, MonotonicTime deadline) const {
    const uint64_t count = CountAt(thread, entries);
    if (threads_[other].count.load(std::memory_order_acquire) >= count) [[likely]]
      return absl::OkStatus();
    return AwaitSlowly(thread, other, count, deadline);
  }
  // Blocks `thread` until all other threads have ended the run. Needs no deadline, because every
  // Await of theirs returns eventually.
  void AwaitEnds(int thread) const;

 private:
  struct alignas(64) Thread {
    std::atomic<uint64_t> count{0};  // CountAt() the last recorded entry
    std::atomic<uint64_t> ended{0};  // the last run that the thread has ended
    uint64_t runs = 0;               // runs begun; accessed only by the thread itself
  };

  // Returns the count of a thread that has run `entries` entries in `thread`'s current run.
  uint64_t CountAt(int thread, int entries) const {
    return threads_[thread].runs * entries_per_run_ + static_cast<uint64_t>(entries);
  }
  absl::Status AwaitSlowly(int thread, int other, uint64_t count, MonotonicTime deadline) const;

  const uint64_t entries_per_run_;
  std::vector<Thread> threads_;
  std::atomic<uint64_t> failed_run_{0};
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_THREAD_PROGRESS_H_
