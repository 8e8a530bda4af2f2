// SPDX-License-Identifier: Apache-2.0
//
// RunMonitor holds the state that a training process exposes to its operator. The training thread
// updates it, at the cost of a few stores per step; other threads can read metrics, health and
// readiness at any time.
#ifndef MIRRORFLOW_TRAIN_TRAINER_MONITORING_RUN_MONITOR_H_
#define MIRRORFLOW_TRAIN_TRAINER_MONITORING_RUN_MONITOR_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/runtime/run_progress.h"
#include "train/trainer/monitoring/http_server.h"

namespace mirrorflow {

class RunMonitor {
 public:
  struct Options {
    std::string job = "";  // empty if the job has no name
    int worker = 0;
    int num_workers = 1;
    int64_t restarts = 0;  // restarts of the job before this process
    // A process that makes no progress in a step for this long is considered hung.
    absl::Duration progress_timeout = absl::Minutes(5);
  };
  explicit RunMonitor(const Options& options);

  // ---- called by the training thread ------------------------------------------------------------

  // Sets what the process is waiting for, such as `the other workers`. Clears a failure, because
  // the process may be recovering from it. The process is ready after its next step.
  void SetWaiting(std::string what);
  // Watches a session's progress, in place of the previous session's, and times its waits.
  void Watch(const std::shared_ptr<RunProgress>& progress);
  void SetReplicas(int local, int all);
  void SetVariableBytes(int64_t bytes) { Set(variable_bytes_, bytes); }

  void BeginStep() { began_ = MonotonicTime::Now(); }
  struct StepReport {
    int64_t step = 0;      // index of the step that has ended, from 1
    int64_t examples = 0;  // examples in its global batch
    float loss = 0;
    int64_t reserved_bytes = 0;
    std::optional<MonotonicTime> checkpoint_time = {};  // see TrainingState
  };
  void EndStep(const StepReport& report);
  // Records that the process cannot continue.
  void Fail(const absl::Status& why);

  // ---- called by any thread ---------------------------------------------------------------------

  // Answers /metrics, /healthz and /readyz.
  HttpReply Answer(absl::string_view path);

 private:
  // Upper bounds of the step duration buckets, in seconds.
  static constexpr double kBounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                       0.5,   1,      2.5,   5,    10,    30,   60};

  template <typename T>
  static void Set(std::atomic<T>& place, T value) {
    place.store(value, std::memory_order_relaxed);
  }
  // Not an atomic read-modify-write: only one thread may call it.
  template <typename T>
  static void Add(std::atomic<T>& place, T value) {
    Set<T>(place, place.load(std::memory_order_relaxed) + value);
  }

  std::string Metrics();
  // These functions return the reason, or an empty string if the process is healthy or ready.
  std::string WhyUnhealthy();
  std::string WhyNotReady();
  // Returns the state of the process's sessions and, if the process runs the coordination service,
  // how many workers are in each state. Each line begins with \n.
  std::string StateText();
  std::string Failure();
  absl::Duration Waited();

  const Options options_;

  MonotonicTime began_ = MonotonicTime::Now();  // when the current step began
  const RunProgress* last_watched_ = nullptr;   // progress_; used only by the training thread

  std::atomic<bool> has_stepped_{false};
  std::atomic<int64_t> step_{0}, examples_{0};
  std::atomic<float> loss_{0};
  std::array<std::atomic<uint64_t>, std::size(kBounds) + 1> durations_ = {};  // by bucket
  std::atomic<double> total_seconds_{0};
  std::atomic<int> local_replicas_{0}, all_replicas_{0};
  std::atomic<int64_t> variable_bytes_{0}, reserved_bytes_{0};
  std::atomic<MonotonicTime> checkpoint_time_{MonotonicTime()};  // MonotonicTime() means none

  Mutex state_mutex_;
  std::string state_ ABSL_GUARDED_BY(state_mutex_);
  MonotonicTime state_until_ ABSL_GUARDED_BY(state_mutex_);

  Mutex mutex_;
  std::string waiting_ ABSL_GUARDED_BY(mutex_) = "starting";
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<RunProgress> progress_ ABSL_GUARDED_BY(mutex_);
  // Set if SetWaiting() has been called since progress_ broke, so the caller is handling the loss
  // of the worker.
  bool loss_is_known_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration waited_before_ ABSL_GUARDED_BY(mutex_);  // waits of the sessions before progress_
  // The last observed position of progress_, and when it was first observed.
  RunProgress::Position seen_ ABSL_GUARDED_BY(mutex_);
  MonotonicTime seen_since_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_MONITORING_RUN_MONITOR_H_
