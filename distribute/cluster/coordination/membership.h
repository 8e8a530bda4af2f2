// SPDX-License-Identifier: Apache-2.0
//
// Membership tracks a cluster's workers. It admits workers whose settings agree, and records which
// workers are missing, have left or are lost. Thread-safe.
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
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distribute/cluster/coordination/answer.h"
#include "distribute/cluster/coordination/coordination.pb.h"
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

  // ---- registration -----------------------------------------------------------------------------

  // Registers the process as the worker that `member` describes. Returns Aborted if another process
  // is registered as this worker; the caller can retry, because that process may be dead, or the
  // whole cluster may be about to end. Returns Unavailable once a worker of the complete cluster
  // has left or is lost, because a new cluster has to form. Returns InvalidArgument, from then on
  // for all workers, if a setting differs from those of workers already registered, or if another
  // worker uses the same GPU.
  absl::Status Admit(const WorkerProcess& process, const coordination::Member& member);
  // Unregisters a worker whose registration has failed with `why`, so it can register again.
  void Forget(const WorkerProcess& process, const absl::Status& why);
  // Returns the first difference between workers; OK if all agree.
  absl::Status mismatch() const;
  // Returns the error of the last registration that timed out; OK if none has.
  absl::Status timeout() const;
  // Waits briefly until all workers have received the mismatch, because some may start later.
  void WaitUntilMismatchIsKnown();

  // ---- members ----------------------------------------------------------------------------------

  // Returns OK for a registered process, or why the process is not registered.
  absl::Status CheckMember(const WorkerProcess& process) const;
  // Returns how long a worker may be silent; infinite if it has not registered.
  absl::Duration HeartbeatTimeout(int worker) const;
  // Returns the workers as a serialized coordination::Membership; Unavailable until all have
  // registered.
  Answer members() const;
  // Starts a worker's heartbeat timeout. Must be called once the answer to its registration has
  // been sent.
  void Begin(int worker);
  // Returns a line that names the missing workers; empty once all workers have registered.
  std::string WaitingText(MonotonicTime now) const;

  // ---- ends -------------------------------------------------------------------------------------

  // Records that a worker leaves, and why. Does not end the calls of other workers that need it:
  // CoordinationState::Leave does. Returns false if the worker has already left.
  bool Leave(int worker, const absl::Status& why);
  struct Loss {
    absl::Status why;
    // False until all workers have registered, because the worker may register again until then.
    bool is_final = false;
  };
  // Removes a process that has not reconnected. Returns nullopt if it is not a member or has left.
  std::optional<Loss> Lose(const WorkerProcess& process);

  // ---- heartbeats -------------------------------------------------------------------------------

  void Beat(int worker, const coordination::Heartbeat& heartbeat);
  // Extends all deadlines by `duration`, because this process was stopped for this long and could
  // not receive heartbeats.
  void ForgiveSilence(absl::Duration duration);
  // Returns the workers that have been silent for longer than their heartbeat timeouts.
  std::vector<int> SilentWorkers(MonotonicTime now) const;
  // Returns a line to log that names the workers whose last heartbeat is older than usual, or an
  // empty string. Names each worker at most once a minute.
  std::string SlowWorkersText(MonotonicTime now);
  // Like Lose, for a worker whose heartbeats have stopped.
  std::optional<Loss> LoseSilent(int worker, MonotonicTime now);

  // Records which workers are waiting for other workers between two steps. `waiting` is indexed by
  // worker. A worker that has not left and is not lost is *late* while it is neither inside a step
  // nor waiting, for up to its prepare timeout.
  void SetWaiting(MonotonicTime now, const std::vector<bool>& waiting);
  // Returns DeadlineExceeded if a worker has been inside a step without progress for longer than
  // its progress timeout. Reports each worker only once until it makes progress. Another worker may
  // be the cause. Returns OK while any worker is late, because the others can only wait for it. The
  // timeout restarts when no worker is late any longer.
  absl::Status FindStall(MonotonicTime now);
  // Returns a line to log about a worker that has been late for over a minute while others wait for
  // it; empty if there is none. Names each worker at most once a minute.
  std::string LateWorkerText(MonotonicTime now);
  // Returns a line to log about the straggler that StragglerWatch::Find returns; empty if there is
  // none.
  std::string StragglerText(MonotonicTime now);
  // Returns a time since which every worker that has not left has sent a heartbeat: the oldest of
  // their last heartbeats.
  MonotonicTime HeardFromAllSince() const;
  // Takes the error of a worker whose wait has timed out. Returns an error that blames the worker
  // that is furthest behind. If all workers are at the same position, only adds every worker's
  // position.
  absl::Status BlameSlowest(const absl::Status& timeout) const;

  // Returns each worker's state and position. `calls`: as CoordinationState::AddWaitTexts sets
  // them.
  coordination::ClusterStatus Status(MonotonicTime now, std::vector<std::string> calls) const;

  // Returns the workers that have left or are lost, and why. The worker that left or was lost first
  // comes first.
  std::vector<std::pair<int, absl::Status>> left() const;
  // Makes WaitUntilOver stop waiting for workers to register.
  void CancelStart();
  // Implements CoordinationServer::WaitUntilOver.
  absl::Status WaitUntilOver(MonotonicTime start_deadline);

 private:
  struct Registered {
    uint64_t process = 0;
    coordination::Member member;
    MonotonicTime last_beat = MonotonicTime::InfiniteFuture();  // set by Begin and each heartbeat
    coordination::Heartbeat heartbeat;                          // the last heartbeat
    MonotonicTime last_progress =
        MonotonicTime::InfiniteFuture();  // when it last made progress, or when Begin was called
    bool stall_reported = false;          // whether FindStall reported it since its last progress
    bool is_waiting = false;              // as the last SetWaiting recorded
    MonotonicTime last_wait = MonotonicTime::InfinitePast();
    MonotonicTime last_warning = MonotonicTime::InfinitePast();

    static absl::Duration TimeoutOf(int64_t milliseconds) {
      return milliseconds > 0 ? absl::Milliseconds(milliseconds) : absl::InfiniteDuration();
    }
    absl::Duration heartbeat_timeout() const { return TimeoutOf(member.heartbeat_timeout_ms()); }
    absl::Duration progress_timeout() const { return TimeoutOf(member.progress_timeout_ms()); }
    absl::Duration prepare_timeout() const { return TimeoutOf(member.prepare_timeout_ms()); }
    // Returns when it last made progress or waited for others, whichever is later. Lateness is
    // measured from this time.
    MonotonicTime busy_since() const { return std::max(last_progress, last_wait); }
    // Grows as the worker makes progress.
    std::pair<uint64_t, uint64_t> position() const {
      return {heartbeat.runs(), heartbeat.collectives()};
    }
  };

  absl::Status Differ(int worker, absl::string_view what, absl::string_view own,
                      absl::string_view other) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Rejects all workers from now on, because `worker` does not match the others.
  absl::Status EndWith(absl::string_view mismatch, int worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckSettings(const coordination::Member& member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckGpus(const coordination::Member& member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Remove(std::map<int, Registered>::iterator member) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasLeft(int worker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return has_left_[worker]; }
  bool IsLate(const Registered& member, MonotonicTime now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<Loss> LoseBecause(int worker, absl::string_view cause)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CollectivesByWorker Collectives() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int num_workers_;
  const std::vector<std::string> addresses_;
  const MonotonicTime started_;
  mutable Mutex mu_;
  CondVar changed_;
  bool complete_ ABSL_GUARDED_BY(mu_) = false;  // whether all workers have registered
  bool start_is_cancelled_ ABSL_GUARDED_BY(mu_) = false;
  std::map<int, Registered> members_ ABSL_GUARDED_BY(mu_);
  StragglerWatch stragglers_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int> gpu_users_ ABSL_GUARDED_BY(mu_);  // GPU UUID -> worker
  Answer members_answer_ ABSL_GUARDED_BY(mu_);                 // the result of members()
  std::vector<std::pair<int, absl::Status>> left_ ABSL_GUARDED_BY(mu_);
  std::vector<bool> has_left_ ABSL_GUARDED_BY(mu_);  // by worker
  absl::Status mismatch_ ABSL_GUARDED_BY(mu_);
  MonotonicTime mismatch_time_ ABSL_GUARDED_BY(mu_) = MonotonicTime::InfinitePast();
  std::set<int> know_mismatch_ ABSL_GUARDED_BY(mu_);  // the workers that have received mismatch_
  absl::Status timeout_ ABSL_GUARDED_BY(mu_);
  MonotonicTime last_late_ ABSL_GUARDED_BY(mu_) =
      MonotonicTime::InfinitePast();  // when a worker was last late
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_MEMBERSHIP_H_
