// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/host_port.h"
#include "distribute/cluster/coordination/coordination_server.h"
#include "framework/core/end_requests.h"
#include "framework/core/log_line.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/state_report.h"
#include "framework/core/status.h"
#include "tools/cli/commands.h"
#include "tools/flags/cluster_flags.h"

ABSL_FLAG(int, num_workers, 0, "coordinator: number of workers in the job");

namespace mirrorflow {
namespace {

// Forwards the first SIGTERM or SIGINT to all workers. A second signal ends this process.
class StopRelay {
 public:
  // Blocks the signals in this thread. Later threads inherit the mask, so only the relay's thread
  // receives the signals.
  StopRelay() {
    for (const int number : {SIGTERM, SIGINT}) sigaddset(&signals_, number);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    thread_ = std::thread([this] { Watch(); });
  }
  ~StopRelay() {
    over_ = true;
    pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }

  // Sets the server that currently serves the workers, or null.
  void SetServer(CoordinationServer* server) {
    MutexLock lock(&mu_);
    server_ = server;
    if (server_ != nullptr && signal_ != 0) server_->RequestStop(signal_);
  }
  int signal() {
    MutexLock lock(&mu_);
    return signal_;
  }

 private:
  void Watch() {
    int number = 0;
    while (sigwait(&signals_, &number) == 0 && !over_) {
      MutexLock lock(&mu_);
      const EndRequests::Kind kind = requests_.Take(number);
      if (kind == EndRequests::Kind::kRepeated) continue;
      if (kind == EndRequests::Kind::kSecond) {
        pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
        raise(number);
      }
      signal_ = number;
      if (server_ != nullptr) server_->RequestStop(signal_);
    }
  }

  sigset_t signals_ = {};
  std::atomic<bool> over_{false};
  Mutex mu_;
  CoordinationServer* server_ ABSL_GUARDED_BY(mu_) = nullptr;
  EndRequests requests_;
  int signal_ ABSL_GUARDED_BY(mu_) = 0;
  std::thread thread_;
};

}  // namespace

absl::Status Coordinator(const std::vector<std::string>& args, ExitCode* code) {
  *code = kExitUsage;
  MF_RETURN_IF_ERROR(CheckArguments("coordinator", args, 0, 0, "only flags"));
  const int num_workers = absl::GetFlag(FLAGS_num_workers);
  MF_RETURN_IF_ERROR(CheckFlagRange("num_workers", num_workers, 1, 1 << 16));
  MF_ASSIGN_OR_RETURN(const JoinOptions flags, JoinOptionsOfFlags());
  // Never destroyed, because the process's last output is its error line.
  [[maybe_unused]] static const auto* const identity =
      new LogIdentity(flags.job, /*worker=*/std::nullopt);
  MF_ASSIGN_OR_RETURN(const HostPort bind, Annotate(ParseHostPort(flags.bind), "--bind"));
  HostPort advertise = bind;
  if (!flags.advertise.empty()) {
    MF_ASSIGN_OR_RETURN(advertise,
                        Annotate(ParseHostPort(flags.advertise, bind.port), "--advertise"));
  }
  if (flags.secret.empty() && !IsLoopback(bind.host) && !flags.insecure) {
    return absl::InvalidArgumentError(
        absl::StrCat("--bind=", bind.ToString(),
                     ": no secret; set --secret_file, or --insecure in a network where every "
                     "process is trusted"));
  }
  const CoordinationServer::Options options = {.address = bind.ToString(),
                                               .num_workers = num_workers,
                                               .secret = flags.secret,
                                               .job = flags.job,
                                               .tls = flags.tls};
  MF_RETURN_IF_ERROR(StateReport::LogOnSignal());
  StopRelay stop;
  *code = kExitCluster;
  MF_RETURN_IF_ERROR(WaitUntilResolved(bind, MonotonicTime::Now() + flags.connect_timeout));
  while (true) {
    // Each time the workers restart, start a new server, which has no record of earlier sessions.
    auto started = CoordinationServer::Start(options, MonotonicTime::Now() + flags.connect_timeout);
    if (absl::IsInvalidArgument(started.status())) *code = kExitUsage;
    MF_ASSIGN_OR_RETURN(const std::unique_ptr<CoordinationServer> server, std::move(started));
    PrintErrorLine(absl::LogSeverity::kInfo, absl::StrCat("coordinating ", num_workers,
                                                          " workers at ", advertise.ToString()));
    stop.SetServer(server.get());
    const absl::Status over = server->WaitUntilOver(MonotonicTime::Now() + flags.connect_timeout);
    stop.SetServer(nullptr);
    if (over.ok()) {  // any signal came too late to stop a worker
      *code = kExitOk;
      return over;
    }
    if (const int signal = stop.signal(); signal != 0) {
      *code = signal == SIGINT ? kExitInterrupted : kExitPreempted;
      PrintErrorLine(
          absl::LogSeverity::kWarning,
          absl::StrCat("coordinator: stopped by SIG", sigabbrev_np(signal), ": ", over.message()));
      return absl::OkStatus();
    }
    if (!absl::IsUnavailable(over)) return over;
    PrintErrorLine(absl::LogSeverity::kWarning,
                   absl::StrCat("coordinator: the workers have ended: ", over.message(),
                                "; waiting for them to start again"));
  }
}

}  // namespace mirrorflow
