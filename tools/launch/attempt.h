// SPDX-License-Identifier: Apache-2.0
//
// Attempt: runs the workers of a job from start to end, under one supervisor per host.
//
// It asks all hosts to run a supervisor, a few hosts at a time. Once enough hosts have answered, it
// numbers the workers, starts them, and waits until they end. The next attempt asks all hosts
// again, so a host that has come back is used again. If the workers wait for a lost worker
// (--rejoin_timeout), that worker restarts within the attempt.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_ATTEMPT_H_
#define MIRRORFLOW_TOOLS_LAUNCH_ATTEMPT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/core/end_requests.h"
#include "framework/core/log_line.h"
#include "framework/core/monotonic_time.h"
#include "tools/launch/launch.h"
#include "tools/launch/launch.pb.h"
#include "tools/launch/launch_report.h"
#include "tools/launch/placement.h"
#include "tools/launch/restart_policy.h"
#include "tools/launch/supervisor_process.h"
#include "tools/launch/worker_output.h"

namespace mirrorflow {

class Attempt {
 public:
  struct Restart {
    int count = 0;       // restarts of the job and of lost workers
    std::string reason;  // for the last restart; empty before the first restart
  };
  // `signals` is a signalfd for the signals that ask the launcher to end.
  Attempt(const LaunchOptions& options, Restart restart, RestartPolicy& policy, int signals,
          WorkerOutput& output)
      : options_(options),
        restart_(std::move(restart)),
        policy_(policy),
        signals_(signals),
        output_(output) {}

  // Returns the exit code.
  absl::StatusOr<int> Run();

  // Returns whether the launcher was asked to end.
  bool is_interrupted() const { return interrupted_; }
  // After a failure, return its cause in one line, and the host at fault, or an empty name if the
  // host is unknown or is this machine.
  const std::string& reason() const { return reason_; }
  const std::string& failed_host() const { return failed_host_; }
  int num_restarts() const { return restart_.count; }
  // Returns the step of the newest checkpoint that the workers have saved, or 0 if there is none.
  int64_t saved_step() const { return saved_step_; }

 private:
  // A worker or, until Begin(), a placement that may become a worker.
  struct Worker {
    bool started = false;
    bool ended = false;
    bool starts_again = false;    // whether it was lost and the job has made no progress since
    int64_t lost_after_step = 0;  // step of the newest checkpoint when it was lost
    MonotonicTime again_at = MonotonicTime::InfiniteFuture();  // when it restarts
    WorkerEnd end;

    bool is_pausing() const { return again_at < MonotonicTime::InfiniteFuture(); }
  };
  struct Host {
    LaunchHost host;
    int num_workers = 1;
    int first_worker = 0;                           // this host's workers are consecutive
    std::unique_ptr<SupervisorProcess> supervisor;  // null until the host is asked to run it
    MonotonicTime asked_at;
    std::string early_errors;  // in an elastic job: the remote shell's stderr before Begin()
    bool ready = false;        // whether its supervisor has answered
    bool ended = false;        // whether its supervisor has ended
  };

  absl::Span<Worker> WorkersOf(const Host& host) {
    return absl::MakeSpan(workers_).subspan(host.first_worker, host.num_workers);
  }
  bool is_over() const;
  bool is_starting() const;
  int num_ready() const;
  // Returns whether the host has been asked and may still answer soon.
  static bool is_awaited(const Host& host, MonotonicTime now);
  // Returns whether every host has answered or failed to.
  bool has_heard_all() const;
  MonotonicTime NextDeadline() const;

  void AddWorkers(Host& host);
  absl::Status AskHosts(MonotonicTime now);
  absl::Status Gather();
  std::string AbsentText() const;
  void Begin();
  void StartWorkers();
  launch::Order StartOrder(int index);

  absl::Status Serve();
  void PassDeadlines();
  // Restarts the lost workers whose pause is over.
  void RestartLostWorkers();
  void MissStartDeadline();
  void KillSupervisors();
  void TakeSignals();
  void AskForReports();
  void EndAll(int signal);
  void TakeErrors(Host& host);
  void TakeEvents(Host& host);
  void TakeEvent(Host& host, const launch::Event& event);
  void FailToAnswer(Host& host, const absl::Status& why);
  void LoseHost(Host& host, const absl::Status& why);
  // Returns whether none of the host's workers is running or waiting to restart.
  bool is_done(const Host& host);
  int Release(Host& host);
  void End(Host& host, Worker& worker, int exit_code);
  void AddEnd(const Host& host, Worker& worker, int exit_code);
  // Schedules a restart of the worker, which has just ended, if it can restart while the others
  // wait for it. Returns whether it will restart.
  bool MaybeScheduleRestart(const Host& host, Worker& worker);
  void AwaitLastWorkers();
  int ExitCodeOfJob();

  const LaunchOptions& options_;
  Restart restart_;
  RestartPolicy& policy_;
  const int signals_;
  WorkerOutput& output_;
  std::vector<Host> hosts_;        // all hosts until Begin(), then those that have answered
  std::vector<Worker> workers_;    // by placement until Begin(), then by number
  std::vector<Placement> placed_;  // the same workers
  std::vector<int> ports_;
  bool has_numbers_ = !options_.is_elastic;
  std::string secret_;
  std::string job_;  // random, so workers of an earlier attempt cannot join this attempt
  std::optional<LogIdentity> log_identity_;
  MonotonicTime begin_;
  MonotonicTime ask_again_at_ = MonotonicTime::InfiniteFuture();
  bool awaits_last_ = false;  // whether restarted workers have until end_all_at_ to end
  MonotonicTime end_all_at_ = MonotonicTime::InfiniteFuture();
  MonotonicTime kill_at_ = MonotonicTime::InfiniteFuture();
  bool gathering_ = true;  // until Begin(), or until the attempt ends earlier
  bool ending_ = false;    // whether all workers have been asked to end
  bool interrupted_ = false;
  EndRequests requests_;
  bool killing_ = false;  // whether KillSupervisors has been called
  MonotonicTime counted_loss_ = MonotonicTime::InfinitePast();  // the last loss that was counted
  int64_t saved_step_ = 0;
  int exit_code_ = 0;  // exit code of the job, unless the workers determine it
  std::string reason_, failed_host_;
  std::vector<WorkerEnd> ends_;  // in order of time
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_ATTEMPT_H_
