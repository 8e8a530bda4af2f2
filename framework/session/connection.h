// SPDX-License-Identifier: Apache-2.0
//
// Connection joins a session's replicas with one another and with those of other workers. It is a
// state machine: joined, as a new incarnation; connected; broken, with the first cause; and so on.
//
//   MF_RETURN_IF_ERROR(connection.Join(deadline));
//   MF_RETURN_IF_ERROR(connection.Connect(replicas, deadline));
//   …
//   if (!status.ok()) return connection.Break(status, step, deadline);  // the first cause
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_CONNECTION_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_CONNECTION_H_

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
#include "framework/runtime/communicator.h"
#include "framework/runtime/replica.h"
#include "framework/runtime/run_progress.h"
#include "framework/runtime/topology.h"
#include "framework/session/worker_group.h"

namespace mirrorflow {

// Connects one communicator for each of `local_ranks`, for one incarnation of the world. Returns
// once all ranks are connected, at the latest at `deadline`. `workers` is null if there is only one
// worker.
using ConnectFn = std::function<absl::StatusOr<std::vector<std::unique_ptr<Communicator>>>(
    const Topology& topology, absl::Span<const int> local_ranks, WorkerGroup* workers,
    uint64_t incarnation, MonotonicTime deadline)>;

// Ends a process that does not take notice of a failure of another worker: an instruction of its
// step hangs, or its program does between two steps. Nothing can interrupt it.
struct HangPolicy {
  // Limits after the failure.
  absl::Duration inside_step = absl::InfiniteDuration();
  absl::Duration between_steps = absl::InfiniteDuration();
  std::function<void(const absl::Status& failure)> end_process = nullptr;
};

class Connection {
 public:
  enum class State { kBroken, kJoined, kConnected };

  // `workers` is borrowed; null if there is only one worker.
  Connection(Topology topology, WorkerGroup* workers, ConnectFn connect, HangPolicy hang_policy)
      : topology_(std::move(topology)),
        has_other_workers_(topology_.num_workers() > 1),
        workers_(workers),
        connect_(std::move(connect)),
        hang_policy_(std::move(hang_policy)) {}
  ~Connection() { Disconnect(); }

  const Topology& topology() const { return topology_; }
  WorkerGroup* workers() const { return workers_; }
  bool has_other_workers() const { return has_other_workers_; }
  int worker() const { return workers_ == nullptr ? 0 : workers_->worker(); }
  std::vector<int> local_ranks() const { return topology_.RanksOfWorker(worker()); }

  State state() const { return state_; }
  // The first cause of the last break, with its Failure as a payload; OK if there was none.
  const absl::Status& failure() const { return failure_; }
  // The number of the current incarnation; 0 before the first Join.
  uint64_t incarnation() const { return incarnation_; }

  // Begins a new incarnation. Waits for the other workers, which must call Join as well; from then
  // on workers() can be used.
  absl::Status Join(MonotonicTime deadline);
  // Connects the local replicas, in rank order, whose progress() begins anew. Waits for the other
  // workers. REQUIRES: Join
  absl::Status Connect(absl::Span<const std::unique_ptr<Replica>> replicas, MonotonicTime deadline);

  // Progress of the local replicas since Connect, for the runs of steps to keep up to date.
  RunProgress& progress() const { return *progress_; }

  // The failure that another rank has caused since Connect; OK if there is none.
  absl::Status Check() const;

  // Ends every wait of every rank, on all workers, and returns the first cause: `cause` unless
  // another failure preceded it. `step` is recorded in its Failure.
  absl::Status Break(const absl::Status& cause, uint64_t step, MonotonicTime deadline);

  // Destroys the communicators.
  void Disconnect();

 private:
  void ShareProgress(absl::Span<const std::unique_ptr<Replica>> replicas);
  // Ends the waits of the local replicas after a failure of another worker, and waits until the
  // session has noticed it.
  void TakeFailure(const absl::Status& why);
  void AwaitNotice(const absl::Status& why);
  // Adds the rank and worker at fault to a failure, and what is known of the collectives.
  absl::Status Locate(const absl::Status& failure, int64_t step) const;

  const Topology topology_;
  const bool has_other_workers_;  // cached, because every step reads it
  WorkerGroup* const workers_;
  const ConnectFn connect_;
  const HangPolicy hang_policy_;
  State state_ = State::kBroken;
  absl::Status failure_;
  uint64_t incarnation_ = 0;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<Replica*> replicas_;  // hold pointers to the communicators
  std::shared_ptr<RunProgress> progress_;
  mutable std::atomic<bool> has_noticed_{false};  // a failure since Connect
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_CONNECTION_H_
