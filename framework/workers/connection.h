// SPDX-License-Identifier: Apache-2.0
//
// Connection connects a session's replicas with one another and with the replicas of other workers.
// It is a state machine that cycles through three states: joined (a new incarnation), connected,
// and broken (with the first cause).
//
//   MF_RETURN_IF_ERROR(connection.Join(deadline));
//   MF_RETURN_IF_ERROR(connection.Connect(replicas, deadline));
//   …
//   if (!status.ok()) return connection.Break(status, step, deadline);  // the first cause
#ifndef MIRRORFLOW_FRAMEWORK_WORKERS_CONNECTION_H_
#define MIRRORFLOW_FRAMEWORK_WORKERS_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/state_report.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/replica.h"
#include "framework/runtime/run_progress.h"
#include "framework/runtime/topology.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

// Connects one communicator for each of `local_ranks`, for one incarnation. Blocks until all ranks
// are connected, at most until `deadline`. `workers` is null if there is only one worker.
using ConnectFn = std::function<absl::StatusOr<std::vector<std::unique_ptr<Communicator>>>(
    const Topology& topology, absl::Span<const int> local_ranks, WorkerGroup* workers,
    uint64_t incarnation, MonotonicTime deadline)>;

// Ends a process that does not react to another worker's failure because it hangs inside an
// instruction of a step, or between two steps. Neither can be interrupted.
struct HangPolicy {
  // Time limits, counted from the failure.
  absl::Duration inside_step = absl::InfiniteDuration();
  absl::Duration between_steps = absl::InfiniteDuration();
  std::function<void(const absl::Status& failure)> end_process = nullptr;
};

class Connection {
 public:
  enum class State { kBroken, kJoined, kConnected };

  // `workers` is null if there is only one worker.
  Connection(Topology topology, std::shared_ptr<WorkerGroup> workers, ConnectFn connect,
             HangPolicy hang_policy)
      : topology_(std::move(topology)),
        has_other_workers_(topology_.num_workers() > 1),
        workers_(std::move(workers)),
        connect_(std::move(connect)),
        hang_policy_(std::move(hang_policy)) {}
  ~Connection() { Disconnect(); }

  const Topology& topology() const { return topology_; }
  WorkerGroup* workers() const { return workers_.get(); }
  bool has_other_workers() const { return has_other_workers_; }
  int worker() const { return workers_ == nullptr ? 0 : workers_->worker(); }
  std::vector<int> local_ranks() const { return topology_.RanksOfWorker(worker()); }

  State state() const { return state_; }
  // Returns the first cause of the last break, with its Failure as a payload; OK if there was none.
  absl::Status failure() const;
  // Returns the number of the current incarnation; 0 before the first Join.
  uint64_t incarnation() const { return incarnation_; }

  // Begins a new incarnation. Blocks until all workers have called Join. After that, workers() is
  // usable.
  absl::Status Join(MonotonicTime deadline);
  // Connects the local replicas, in rank order, and resets progress(). Blocks until the other
  // workers have connected. REQUIRES: Join has succeeded.
  absl::Status Connect(absl::Span<const std::unique_ptr<Replica>> replicas, MonotonicTime deadline);

  // Returns the progress of the local replicas since Connect, which replaces the object. Steps
  // update it while they run.
  RunProgress& progress() const { return *progress_; }
  // Like progress(), for threads that read it independently of the session.
  const std::shared_ptr<RunProgress>& shared_progress() const { return progress_; }

  // Returns the failure that another rank has caused since Connect; OK if none has.
  absl::Status Check() const;

  // Ends every wait of every rank, on all workers, and returns the first cause: `cause` unless
  // another failure preceded it. Records `step` in its Failure. Thread-safe.
  absl::Status Break(const absl::Status& cause, uint64_t step, MonotonicTime deadline);

  // Destroys the communicators.
  void Disconnect();

 private:
  void ShareProgress(absl::Span<const std::unique_ptr<Replica>> replicas);
  // Ends the local replicas' waits after another worker's failure.
  void TakeFailure(const absl::Status& why);
  // Waits for the session to notice the failure, and enforces the hang policy. Runs on a thread
  // that the session does not use.
  void AwaitNotice(const absl::Status& why);
  // Attaches the step, and the rank and worker at fault, to an error.
  absl::Status WithStep(const absl::Status& failure, int64_t step) const;

  const Topology topology_;
  const bool has_other_workers_;  // cached, because every step reads it
  const std::shared_ptr<WorkerGroup> workers_;
  const ConnectFn connect_;
  const HangPolicy hang_policy_;
  State state_ = State::kBroken;
  mutable Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  uint64_t incarnation_ = 0;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<Replica*> replicas_;  // they hold pointers to the communicators
  std::shared_ptr<RunProgress> progress_;
  std::unique_ptr<StateReport> report_;  // reports progress_
  // Whether the session has noticed a failure since Connect.
  mutable std::atomic<bool> has_noticed_{false};
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_WORKERS_CONNECTION_H_
