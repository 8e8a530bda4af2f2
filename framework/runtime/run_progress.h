// SPDX-License-Identifier: Apache-2.0
//
// RunProgress: how far a session's replicas have come. Other threads can read it while a step runs
// or hangs. Recording it costs a few stores per step, and no call blocks.
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

// The latest collectives of one replica. One thread writes; any thread can read.
class CollectiveLog {
 public:
  static constexpr uint64_t kSize = 64;

  void BeginStep(uint64_t step) { step_.store(step, std::memory_order_relaxed); }
  void Start(int sequence, absl::string_view name);
  // Records that the oldest unfinished collective has finished.
  void Finish() { finished_.store(finished() + 1, std::memory_order_release); }

  // Marks, for its lifetime, that the replica's thread waits for other ranks inside a collective.
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

  // Return how many collectives have started and finished since the log began.
  uint64_t started() const { return started_.load(std::memory_order_acquire); }
  uint64_t finished() const { return finished_.load(std::memory_order_acquire); }
  // Returns whether the replica may be waiting for other ranks. Always true if the thread only
  // enqueues work (SetWorksAhead).
  bool may_wait() const { return works_ahead_ || waiting_.load(std::memory_order_relaxed); }
  // Returns the total duration of the timed waits; zero if the thread only enqueues work.
  absl::Duration waited() const {
    return absl::Nanoseconds(waited_ns_.load(std::memory_order_relaxed));
  }
  // Times all further waits, at the cost of two clock readings per wait.
  void TimeWaits() { times_waits_.store(true, std::memory_order_relaxed); }
  // Declares that the replica's thread only enqueues work, as for a GPU, so its progress does not
  // show the device's. Call it before the first collective.
  void SetWorksAhead() { works_ahead_ = true; }

  struct Entry {
    uint64_t number = 0;  // from 1, counted since the log began
    uint64_t step = 0;    // of the session
    int sequence = 0;     // in the plan
    std::string name = {};
    bool finished = false;
  };
  // Returns the last kSize collectives, oldest first.
  std::vector<Entry> Latest() const;

 private:
  // The fields are atomic because the writer can overtake a reader, which then sees a mix of two
  // records.
  struct Record {
    std::atomic<uint64_t> step{0};
    std::atomic<int> sequence{0};
    std::array<std::atomic<uint64_t>, 12> name = {};  // null-terminated; long names are truncated
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

  // Marks, for its lifetime, that a step runs: from its first instruction to its end. Compilation
  // is not part of it.
  class Run {
   public:
    // `step` is the number of the step that begins, counted from 1.
    Run(RunProgress& progress, uint64_t step);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

   private:
    RunProgress& progress_;
    const bool is_timed_;
    const MonotonicTime began_;
  };

  const std::shared_ptr<CollectiveLog>& log(int replica) const { return logs_[replica]; }
  // Returns the log of the replica that is furthest behind.
  const CollectiveLog& slowest_log() const;

  // A position that all local replicas have reached. Workers at the same point have equal
  // positions.
  struct Position {
    bool running = false;         // true while a Run is active
    uint64_t runs = 0;            // runs begun
    uint64_t collectives = 0;     // collectives started
    uint64_t finished = 0;        // collectives finished
    uint64_t step = 0;            // the number of the step, as passed to Run
    std::string collective = {};  // the name of the last collective started, if any

    // Formats the position as `in step 12, collective gradient`.
    std::string ToString() const;
  };
  Position position() const;

  // Returns whether the replica that is furthest behind may be waiting for other ranks.
  bool slowest_may_wait() const;
  // Times all further runs and waits (CollectiveLog::TimeWaits), at the cost of two clock readings
  // for each.
  void TimeRunsAndWaits();
  // Returns the mean of the replicas' CollectiveLog::waited().
  absl::Duration waited() const;
  // Returns the total duration of all timed runs that have ended.
  absl::Duration in_runs() const {
    return absl::Nanoseconds(in_runs_ns_.load(std::memory_order_relaxed));
  }

  // Records that the communicator has failed. No step runs until the workers have reconnected.
  void SetBroken() { broken_.store(true, std::memory_order_relaxed); }
  bool is_broken() const { return broken_.load(std::memory_order_relaxed); }

 private:
  std::vector<std::shared_ptr<CollectiveLog>> logs_;
  std::atomic<bool> broken_{false};
  std::atomic<uint64_t> runs_{0};
  std::atomic<uint64_t> step_{0};
  std::atomic<bool> running_{false};
  std::atomic<bool> times_runs_{false};
  std::atomic<int64_t> in_runs_ns_{0};
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_RUN_PROGRESS_H_
