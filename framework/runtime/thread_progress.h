// SPDX-License-Identifier: Apache-2.0
//
// ThreadProgress: orders the threads of a replica during a run. Each thread counts the entries of
// its dispatch list that it has run, and waits for the counts of others. A wait spins, because the
// threads seldom wait for longer than a few microseconds.
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
  // entries when the memory of the run is ready.
  void Advance(int thread, int entries) {
    threads_[thread].count.store(CountAt(thread, entries), std::memory_order_release);
  }
  // Ends the thread's run. If `failed` is true, the waits of other threads for entries that it has
  // not run end as well.
  void End(int thread, bool failed) {
    if (failed) failed_run_.store(threads_[thread].runs, std::memory_order_relaxed);
    threads_[thread].ended.store(threads_[thread].runs, std::memory_order_release);
  }

  // Makes `thread` wait until `other` has recorded that it has run `entries` entries. Returns
  // DeadlineExceeded after the deadline, and Cancelled if another thread failed in this run.
  absl::Status Await(int thread, int other, int entries, MonotonicTime deadline) const {
    const uint64_t count = CountAt(thread, entries);
    if (threads_[other].count.load(std::memory_order_acquire) >= count) [[likely]]
      return absl::OkStatus();
    return AwaitSlowly(thread, other, count, deadline);
  }
  // Makes `thread` wait until all other threads have ended the run. They do, because all their
  // waits end.
  void AwaitEnds(int thread) const;

 private:
  struct alignas(64) Thread {
    std::atomic<uint64_t> count{0};  // of entries, in all runs
    std::atomic<uint64_t> ended{0};  // number of the last run that the thread has ended
    uint64_t runs = 0;               // that the thread has begun; only the thread itself uses it
  };

  // Returns a thread's count when it has run `entries` entries in the current run of `thread`.
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
