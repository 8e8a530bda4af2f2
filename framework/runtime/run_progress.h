// SPDX-License-Identifier: Apache-2.0
//
// RunProgress: how far the replicas of a session have come, which other threads may ask while a
// step runs, or hangs. Writing costs a step a few stores; nothing waits.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_RUN_PROGRESS_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_RUN_PROGRESS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

// The latest collectives of one replica. One thread writes, any may read.
class CollectiveLog {
 public:
  static constexpr uint64_t kSize = 64;

  void BeginStep(uint64_t step) { step_.store(step, std::memory_order_relaxed); }
  void Start(int sequence, absl::string_view name);
  // The oldest one that has not finished has.
  void Finish() { finished_.store(finished() + 1, std::memory_order_release); }

  // A wait of the replica's thread for other ranks, inside a collective.
  class Wait {
   public:
    explicit Wait(CollectiveLog& log);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    CollectiveLog& log_;
    const bool is_timed_;
    const MonotonicTime began_;
  };

  // How many have started and finished since the log began.
  uint64_t started() const { return started_.load(std::memory_order_acquire); }
  uint64_t finished() const { return finished_.load(std::memory_order_acquire); }
  // Whether the replica may be waiting for other ranks. Always true for a device that works ahead.
  bool may_wait() const { return works_ahead_ || waiting_.load(std::memory_order_relaxed); }
  // The total duration of the waits that were timed; zero for a device that works ahead.
  absl::Duration waited() const {
    return absl::Nanoseconds(waited_ns_.load(std::memory_order_relaxed));
  }
  // Times the waits from now on, which costs each of them two readings of the clock.
  void TimeWaits() { times_waits_.store(true, std::memory_order_relaxed); }
  // The replica's thread only enqueues work, as for a GPU, so where it is says nothing about the
  // device. Call before the first collective.
  void SetWorksAhead() { works_ahead_ = true; }

  struct Entry {
    uint64_t number = 0;  // counted from 1 since the log began
    uint64_t step = 0;    // of the session
    int sequence = 0;     // in the plan
    std::string name = {};
    bool finished = false;
  };
  // The last kSize of them, the oldest first.
  std::vector<Entry> Latest() const;

 private:
  // Atomic, because a reader may be overtaken by the writer. It then sees parts of two records.
  struct Record {
    std::atomic<uint64_t> step{0};
    std::atomic<int> sequence{0};
    std::array<std::atomic<uint64_t>, 12> name = {};  // null-terminated; a longer one is cut
  };
  std::atomic<uint64_t> step_{0};
  std::atomic<uint64_t> started_{0};
  std::atomic<uint64_t> finished_{0};
  std::array<Record, kSize> records_;  // collective n is in records_[n % kSize]
  bool works_ahead_ = false;
  std::atomic<bool> times_waits_{false};
  std::atomic<bool> waiting_{false};
  std::atomic<int64_t> waited_ns_{0};
};

class RunProgress {
 public:
  explicit RunProgress(int num_replicas);

  // A run of a step, from its first instruction to its end; compilation does not count.
  class Run {
   public:
    // `step`: the number of the step that begins, from 1.
    Run(RunProgress& progress, uint64_t step);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

   private:
    RunProgress& progress_;
    const MonotonicTime began_ = MonotonicTime::Now();
  };

  const std::shared_ptr<CollectiveLog>& log(int replica) const { return logs_[replica]; }
  // The log of the replica that is furthest behind.
  const CollectiveLog& slowest_log() const;

  // Where all replicas have been. Equal for all workers that have come equally far.
  struct Position {
    bool running = false;         // inside a Run
    uint64_t runs = 0;            // begun
    uint64_t collectives = 0;     // started
    uint64_t finished = 0;        // of these
    uint64_t step = 0;            // as Run's
    std::string collective = {};  // the name of the last one; empty if none has started

    // `in step 12, collective gradient`
    std::string ToString() const;
  };
  Position position() const;

  // Whether the replica that is furthest behind may be waiting for other ranks.
  bool slowest_may_wait() const;
  // CollectiveLog::TimeWaits for all replicas, and the mean of their waited().
  void TimeWaits();
  absl::Duration waited() const;
  // The total duration of the runs that have ended.
  absl::Duration in_runs() const {
    return absl::Nanoseconds(in_runs_ns_.load(std::memory_order_relaxed));
  }

  // Records that this world has failed. No step runs until the workers have connected again.
  void SetBroken() { broken_.store(true, std::memory_order_relaxed); }
  bool is_broken() const { return broken_.load(std::memory_order_relaxed); }

 private:
  std::vector<std::shared_ptr<CollectiveLog>> logs_;
  std::atomic<bool> broken_{false};
  std::atomic<uint64_t> runs_{0};
  std::atomic<uint64_t> step_{0};
  std::atomic<bool> running_{false};
  std::atomic<int64_t> in_runs_ns_{0};
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_RUN_PROGRESS_H_
