// SPDX-License-Identifier: Apache-2.0
//
// Membership: the workers of a cluster. It admits workers that agree, and knows which workers are
// missing, have left or are gone. Thread-safe.
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
  // `addresses`: as CoordinationServer::Options::worker_addresses.
  Membership(int num_workers, std::vector<std::string> addresses);

  int num_workers() const { return num_workers_; }

  // ---- registration -----------------------------------------------------------------------------

  // Registers the process as the worker that `member` describes. Aborted if another process is
  // registered as this worker: it may be dead, or the whole cluster may be about to end.
  // Unavailable once a worker of the complete cluster has left or is gone: the next cluster is
  // another one. InvalidArgument, from then on for all workers, if a setting differs from those of
  // the workers before it, or a GPU is also another worker's.
  absl::Status Admit(const WorkerProcess& process, const coordination::Member& member);
  // Frees the place of a worker whose registration has ended with `why`, so that it can start
  // again.
  void Forget(const WorkerProcess& process, const absl::Status& why);
  // The first difference between workers; OK if there is none.
  absl::Status mismatch() const;
  // Why the last registration that waited too long has ended; OK if none has.
  absl::Status timeout() const;
  // Waits a moment for the workers that do not know of the mismatch yet. They may start later.
  void WaitUntilMismatchIsKnown();

  // ---- members ----------------------------------------------------------------------------------

  // Returns OK for a registered process, or why the process is not registered.
  absl::Status CheckMember(const WorkerProcess& process) const;
  // Returns how long a worker may be silent; infinite if it has not registered.
  absl::Duration HeartbeatTimeout(int worker) const;
  // The workers as a serialized coordination::Membership. Unavailable until all have registered.
  Answer members() const;
  // Starts the heartbeat timeout of a worker, which is called once the worker's answer to its
  // registration has been sent.
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
  // This process has not listened for so long, because it was stopped.
  void ForgiveSilence(absl::Duration duration);
  // The workers that have been silent for longer than they have said they would be.
  std::vector<int> SilentWorkers(MonotonicTime now) const;
  // Returns a line to log that names the workers that have been silent for longer than usual, or an
  // empty string. Names each worker at most once a minute.
  std::string SlowWorkersText(MonotonicTime now);
  // As Lose, for a worker whose heartbeats have ended.
  std::optional<Loss> LoseSilent(int worker, MonotonicTime now);

  // Records which workers, by number, are waiting for others between two steps. A worker that is
  // alive but neither inside a step nor waiting is late, since it last was one of the two.
  void SetWaiting(MonotonicTime now, const std::vector<bool>& waiting);
  // Returns DeadlineExceeded, once for each standstill, if a worker has been inside a step without
  // progress for longer than its progress timeout. Another worker may be the cause. Returns OK
  // while any worker is late. Progress is measured from the end of that: until then, the others
  // could only wait.
  absl::Status Standstill(MonotonicTime now);
  // Returns a line to log about a worker that has been late for over a minute while others wait for
  // it, at most one a minute for each worker; empty if there is none.
  std::string LateWorkerText(MonotonicTime now);
  // Returns a line to log that names the worker that slows down the others, as
  // StragglerWatch::Find does; empty if there is none.
  std::string StragglerText(MonotonicTime now);
  // Returns the time of the oldest of the last heartbeats, one per worker that has not left.
  MonotonicTime HeardFromAllSince() const;
  // The error of a worker whose wait has timed out, about the worker that is furthest behind; as it
  // is if all have come equally far.
  absl::Status BlameSlowest(const absl::Status& timeout) const;

  // Returns where each worker is. `calls`: as CoordinationState::AddWaitTexts sets them.
  coordination::ClusterStatus Status(MonotonicTime now, std::vector<std::string> calls) const;

  // The workers that have left or are gone, in this order, and why.
  std::vector<std::pair<int, absl::Status>> left() const;
  // WaitUntilOver waits no longer for workers to register.
  void CancelStart();
  // As CoordinationServer::WaitUntilOver.
  absl::Status WaitUntilOver(MonotonicTime start_deadline);

 private:
  struct Registered {
    uint64_t process = 0;
    coordination::Member member;
    MonotonicTime last_beat = MonotonicTime::InfiniteFuture();  // from Begin on
    coordination::Heartbeat heartbeat;                          // the last one
    MonotonicTime last_progress =
        MonotonicTime::InfiniteFuture();  // when it last came further, or began
    bool stands_still = false;            // and Standstill has said so
    bool is_waiting = false;              // in the last call of SetWaiting
    MonotonicTime last_wait = MonotonicTime::InfinitePast();
    MonotonicTime last_warning = MonotonicTime::InfinitePast();

    // How long it may be silent.
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
    // Grows as the worker comes further.
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
  Answer members_answer_ ABSL_GUARDED_BY(mu_);                 // of members()
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
