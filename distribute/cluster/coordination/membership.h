// SPDX-License-Identifier: Apache-2.0
//
// Membership tracks the workers of a cluster. It admits workers whose settings agree, and knows
// which workers are missing, have left or are lost. Thread-safe.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_MEMBERSHIP_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_MEMBERSHIP_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distribute/cluster/coordination/answer.h"
#include "distribute/cluster/coordination/coordination.pb.h"
#include "distribute/cluster/coordination/messages.h"
#include "distribute/cluster/coordination/straggler_watch.h"
#include "distribute/cluster/coordination/worker_process.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {

class Membership {
 public:
  // `addresses`: see CoordinationServer::Options::worker_addresses.
  Membership(int num_workers, std::vector<std::string> addresses);

  int num_workers() const { return num_workers_; }

  // ---- registration -----------------------------------------------------------------------------

  // Registers the process as the worker that `member` describes. Returns Aborted if another process
  // is registered as this worker: it may be dead, or the whole cluster may be about to end. Returns
  // Unavailable once a worker of the complete cluster has left or is lost: a new cluster has to
  // form. Returns InvalidArgument, from then on for all workers, if a setting differs from those of
  // workers already registered, or if another worker uses the same GPU.
  absl::Status Admit(const WorkerProcess& process, const coordination::Member& member);
  // Unregisters a worker whose registration has ended with `why`, so that it can start again.
  void Forget(const WorkerProcess& process, const absl::Status& why);
  // Returns the first difference between workers; OK if all agree.
  absl::Status mismatch() const;
  // Returns the error of the last registration that timed out; OK if none has.
  absl::Status timeout() const;
  // Waits briefly for the workers that have not received the mismatch yet; some may start later.
  void WaitUntilMismatchIsKnown();

  // ---- members ----------------------------------------------------------------------------------

  // Returns OK for a registered process, or why the process is not registered.
  absl::Status CheckMember(const WorkerProcess& process) const;
  // Returns how long a worker may be silent; infinite if it has not registered.
  absl::Duration HeartbeatTimeout(int worker) const;
  // Returns the workers as a serialized coordination::Membership; Unavailable until all have
  // registered.
  Answer members() const;
  // Starts a worker's heartbeat timeout. Call once the answer to its registration has been sent.
  void Begin(int worker);
  // Names the missing workers; empty once all workers have registered.
  std::string WaitingText(MonotonicTime now) const;

  // ---- ends -------------------------------------------------------------------------------------

  // Records that a worker leaves, and why; calls of other workers that need it fail with `why`.
  // Returns false if the worker has already left.
  bool Leave(int worker, const absl::Status& why);
  struct Loss {
    absl::Status why;
    bool is_final = false;  // until all workers have registered, a lost one may start again
  };
  // Removes a process that has not reconnected. Returns nullopt if it is not a member or has left.
  std::optional<Loss> Lose(const WorkerProcess& process);

  // ---- heartbeats -------------------------------------------------------------------------------

  void Beat(int worker, const coordination::Heartbeat& heartbeat);
  // Extends all heartbeat deadlines, because this process was stopped and could not listen for
  // `duration`.
  void ForgiveSilence(absl::Duration duration);
  // Returns the workers that have been silent for longer than their heartbeat timeouts.
  std::vector<int> SilentWorkers(MonotonicTime now) const;
  // Returns a line to log that names the workers that have been silent for longer than usual, or an
  // empty string. Names each worker at most once a minute.
  std::string SlowWorkersText(MonotonicTime now);
  // Like Lose, for a worker whose heartbeats have stopped.
  std::optional<Loss> LoseSilent(int worker, MonotonicTime now);

  // Records which workers, by number, are waiting for others between two steps. A worker is late
  // while it is alive but neither inside a step nor waiting.
  void SetWaiting(MonotonicTime now, const std::vector<bool>& waiting);
  // Returns DeadlineExceeded, once for each standstill, if a worker has been inside a step without
  // progress for longer than its progress timeout. Another worker may be the cause. Returns OK
  // while any worker is late. The timeout starts anew when no worker is late any more: until then,
  // the others can only wait.
  absl::Status Standstill(MonotonicTime now);
  // Returns a line to log about a worker that has been late for over a minute while others wait for
  // it, at most one a minute for each worker; empty if there is none.
  std::string LateWorkerText(MonotonicTime now);
  // Returns a line to log that names the worker that slows down the others, as
  // StragglerWatch::Find does; empty if there is none.
  std::string StragglerText(MonotonicTime now);
  // Returns the time of the oldest of the last heartbeats, one per worker that has not left.
  MonotonicTime HeardFromAllSince() const;
  // Rewrites the error of a worker whose wait has timed out to blame the worker that is furthest
  // behind. Returns it unchanged if all have come equally far.
  absl::Status BlameSlowest(const absl::Status& timeout) const;

  // Returns where each worker is. `calls`: as CoordinationState::AddWaitTexts sets them.
  coordination::ClusterStatus Status(MonotonicTime now, std::vector<std::string> calls) const;

  // Returns the workers that have left or are lost, oldest first, and why.
  std::vector<std::pair<int, absl::Status>> left() const;
  // Makes WaitUntilOver stop waiting for workers to register.
  void CancelStart();
  // Implements CoordinationServer::WaitUntilOver.
  absl::Status WaitUntilOver(MonotonicTime start_deadline);

 private:
  struct Registered {
    uint64_t process = 0;
    coordination::Member member;
    MonotonicTime last_beat = MonotonicTime::InfiniteFuture();  // from Begin on
    coordination::Heartbeat heartbeat;                          // the last one
    MonotonicTime last_progress =
        MonotonicTime::InfiniteFuture();  // when it last made progress, or began
    bool stands_still = false;            // set once Standstill has reported it
    bool is_waiting = false;              // in the last call of SetWaiting
    MonotonicTime last_wait = MonotonicTime::InfinitePast();
    MonotonicTime last_warning = MonotonicTime::InfinitePast();

    // Heartbeat timeout.
    absl::Duration timeout() const {
      const int64_t milliseconds = member.heartbeat_timeout_ms();
      return milliseconds > 0 ? absl::Milliseconds(milliseconds) : absl::InfiniteDuration();
    }
    absl::Duration progress_timeout() const {
      const int64_t milliseconds = member.progress_timeout_ms();
      return milliseconds > 0 ? absl::Milliseconds(milliseconds) : absl::InfiniteDuration();
    }
    absl::Duration prepare_timeout() const {
      const int64_t milliseconds = member.prepare_timeout_ms();
      return milliseconds > 0 ? absl::Milliseconds(milliseconds) : absl::InfiniteDuration();
    }
    // When it last made progress or waited for others, whichever is later. Lateness counts from
    // here.
    MonotonicTime busy_since() const { return std::max(last_progress, last_wait); }
    // Grows as the worker makes progress.
    std::pair<uint64_t, uint64_t> position() const {
      return {heartbeat.runs(), heartbeat.collectives()};
    }
  };

  absl::Status Differ(int worker, absl::string_view what, absl::string_view own,
                      absl::string_view other) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Rejects all workers because this one does not match the others.
  absl::Status EndWith(absl::string_view mismatch, int worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckSettings(const coordination::Member& member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckGpus(const coordination::Member& member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Remove(std::map<int, Registered>::iterator member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasLeft(int worker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsLate(const Registered& member, MonotonicTime now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<Loss> LoseBecause(int worker, absl::string_view cause)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CollectivesByWorker Collectives() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int num_workers_;
  const std::vector<std::string> addresses_;
  const MonotonicTime started_;
  mutable Mutex mu_;
  CondVar changed_;
  bool complete_ ABSL_GUARDED_BY(mu_) = false;  // all workers have registered
  bool start_is_cancelled_ ABSL_GUARDED_BY(mu_) = false;
  std::map<int, Registered> members_ ABSL_GUARDED_BY(mu_);
  StragglerWatch stragglers_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int> gpu_users_ ABSL_GUARDED_BY(mu_);  // the worker, by UUID
  Answer members_answer_ ABSL_GUARDED_BY(mu_);                 // the result of members()
  std::vector<std::pair<int, absl::Status>> left_ ABSL_GUARDED_BY(mu_);
  std::vector<bool> has_left_ ABSL_GUARDED_BY(mu_);  // by worker
  absl::Status mismatch_ ABSL_GUARDED_BY(mu_);
  MonotonicTime mismatch_time_ ABSL_GUARDED_BY(mu_) = MonotonicTime::InfinitePast();
  std::set<int> know_mismatch_ ABSL_GUARDED_BY(mu_);  // the workers that have received it
  absl::Status timeout_ ABSL_GUARDED_BY(mu_);
  MonotonicTime last_late_ ABSL_GUARDED_BY(mu_) =
      MonotonicTime::InfinitePast();  // when a worker was last late
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_MEMBERSHIP_H_
