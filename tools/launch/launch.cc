// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/launch.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/core/log_line.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "tools/launch/attempt.h"
#include "tools/launch/descendants.h"
#include "tools/launch/forwarded_variables.h"
#include "tools/launch/worker_output.h"

ABSL_FLAG(std::string, n, "",
          "launch: number of workers; with MIN:MAX, each start and restart runs as many workers, "
          "within these limits, as fit on the hosts that answer; default: the number of slots in "
          "--hosts, or 1");
ABSL_FLAG(
    std::vector<std::string>, hosts, {},
    "launch, bench: where to start workers, NAME[=ADDRESS][:SLOTS],…; the first host runs the "
    "coordination service; default: this machine");
ABSL_FLAG(std::string, rsh, "ssh {host}",
          "launch, bench: the command that runs another command on a host, as words separated by "
          "spaces; launch runs it once per host");
ABSL_FLAG(std::vector<std::string>, env, {},
          "launch: also send these variables to other hosts, even if they look like secrets "
          "(AWS_*, *_TOKEN, …) or describe this host (LD_PRELOAD, …)");
ABSL_FLAG(std::string, log_dir, "",
          "launch: also write the output to worker_N.out, worker_N.err and all.log in this folder");
ABSL_FLAG(std::vector<std::string>, show, {},
          "launch: the workers whose output is printed; default: all");
ABSL_FLAG(absl::Duration, grace, absl::Seconds(30),
          "launch: how long workers have to end after SIGTERM before they get SIGKILL");
ABSL_FLAG(absl::Duration, start_timeout, absl::Seconds(300),
          "launch: time limit for starting all workers, or MIN of them");
ABSL_FLAG(
    int, max_restarts, 0,
    "launch: how many times to restart all workers after failures without progress; training "
    "resumes from the newest checkpoint, and a checkpoint of a later step resets the count; with "
    "0, a preempted job also ends");
ABSL_FLAG(absl::Duration, restart_pause, absl::Seconds(1),
          "launch: the pause before a restart, which doubles with each failure without progress, "
          "up to a minute");
ABSL_FLAG(int, exclude_after, 0,
          "launch -n MIN:MAX: exclude a host once its workers were the first to fail this many "
          "times without progress; 0: never");
ABSL_FLAG(bool, one_gpu_per_process, false,
          "launch: show each worker only one GPU, through CUDA_VISIBLE_DEVICES");
ABSL_DECLARE_FLAG(std::optional<absl::Duration>, rejoin_timeout);  // tools/flags/cluster_flags.cc

extern char** environ;

namespace mirrorflow {
namespace {

// ---- the job ------------------------------------------------------------------------------------

// Returns the signals that ask the launcher to end.
std::vector<int> EndSignals() {
  struct sigaction hang_up;  // `nohup` ignores SIGHUP
  const bool hangs_up = sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN;
  return hangs_up ? std::vector<int>{SIGINT, SIGTERM, SIGHUP} : std::vector<int>{SIGINT, SIGTERM};
}

// Waits for `pause` or until a signal asks the launcher to end. Returns that signal, or 0.
int Wait(absl::Duration pause, int signals) {
  pollfd fd = {.fd = signals, .events = POLLIN, .revents = 0};
  const MonotonicTime end = MonotonicTime::Now() + pause;
  while (true) {
    const absl::Duration left = std::max(end - MonotonicTime::Now(), absl::ZeroDuration());
    poll(&fd, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    signalfd_siginfo info;
    const bool is_read = read(signals, &info, sizeof(info)) == sizeof(info);
    // Between two attempts, no worker is running, so there is nothing to report.
    if (is_read && info.ssi_signo != SIGUSR1) return static_cast<int>(info.ssi_signo);
    if (left == absl::ZeroDuration()) return 0;
  }
}

// Returns the options without the hosts that the policy excludes.
LaunchOptions WithoutExcluded(const LaunchOptions& options, RestartPolicy& policy) {
  LaunchOptions left = options;
  std::erase_if(left.workers, [&](const Placement& placement) {
    return policy.excluded().contains(placement.host.name);
  });
  const std::string excluded = absl::StrJoin(policy.excluded(), ", ");
  if (static_cast<int>(left.workers.size()) >= options.min_workers) {
    if (!excluded.empty()) {
      PrintErrorLine(absl::LogSeverity::kWarning,
                     absl::StrCat("mirrorflow launch: continuing without host ", excluded,
                                  ", which has failed too often"));
    }
    return left;
  }
  PrintErrorLine(absl::LogSeverity::kWarning,
                 absl::StrCat("mirrorflow launch: host ", excluded,
                              " is used again because too few others are left"));
  policy.IncludeAll();
  return options;
}

// Returns the exit code: 0 if all workers succeed, the code of the worker that failed first (128 +
// N after signal N), or kExitStartTimeout. After SIGTERM to the launcher, returns kExitPreempted if
// the signal ended the workers and none failed by itself; otherwise, 128 + N after signal N to the
// launcher. Returns an error if the job could not be started, or if it succeeded but not all of its
// output could be written.
//
// After a failure, restarts all workers as RestartPolicy allows, or with --rejoin_timeout only the
// lost worker. Does not restart if the user interrupted the job, or if the exit code means that a
// restart would fail in the same way (usage, input, resources, numbers).
absl::StatusOr<int> RunJob(const LaunchOptions& options) {
  MF_ASSIGN_OR_RETURN(WorkerOutput output,
                      WorkerOutput::Create({.num_workers = static_cast<int>(options.workers.size()),
                                            .show = options.show,
                                            .log_dir = options.log_dir}));
  // SIGUSR1 asks for a report, and must not end the wait for the readers of the output.
  std::vector<int> all_signals = EndSignals();
  MF_ASSIGN_OR_RETURN(const int ends, BlockSignals(all_signals));  // polled but never read
  const absl::Cleanup close_ends = [ends] { close(ends); };
  output.StopWaitingOn(ends);
  all_signals.push_back(SIGUSR1);
  MF_ASSIGN_OR_RETURN(const int signals, BlockSignals(all_signals));
  const absl::Cleanup close_signals = [signals] { close(signals); };
  RestartPolicy policy(options.restarts);
  for (Attempt::Restart restart;; ++restart.count) {
    const LaunchOptions hosts_left = WithoutExcluded(options, policy);
    Attempt attempt(hosts_left, restart, policy, signals, output);
    MF_ASSIGN_OR_RETURN(const int code, attempt.Run());
    std::optional<absl::Duration> pause;
    if (!attempt.is_interrupted()) {
      pause = policy.PauseAfter(
          {.exit_code = code, .saved_step = attempt.saved_step(), .host = attempt.failed_host()});
    }
    if (!pause.has_value()) {
      if (code == kExitOk) MF_RETURN_IF_ERROR(output.status());
      return code;
    }
    PrintErrorLine(absl::LogSeverity::kWarning,
                   absl::StrFormat("mirrorflow launch: restart %s, in %.1f s", policy.Text(),
                                   absl::ToDoubleSeconds(*pause)));
    if (const int signal = Wait(*pause, signals); signal != 0) {
      PrintErrorLine(absl::LogSeverity::kWarning,
                     "mirrorflow launch: stopped before the restart; run the same command to "
                     "continue");
      return signal == SIGTERM ? static_cast<int>(kExitPreempted) : 128 + signal;
    }
    output.ForgetLastLines();
    restart = {.count = attempt.num_restarts(), .reason = attempt.reason()};
  }
}

// ---- the flags ----------------------------------------------------------------------------------

// Returns the variables that --env names, which must be set.
absl::StatusOr<std::set<std::string>> AddedVariables() {
  std::set<std::string> names;
  for (const std::string& name : absl::GetFlag(FLAGS_env)) {
    if (std::getenv(name.c_str()) == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("--env: variable is not set; expected the name of a set variable, got '",
                       Printable(name), "'"));
    }
    names.insert(name);
  }
  return names;
}

// Tells the user which variables are not sent, because a program may need one of them.
void PrintVariablesThatStay(const std::set<std::string>& added) {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    const bool stays = ForwardingOf(name) == Forwarding::kSecret && !added.contains(name);
    if (stays) names.push_back(Printable(name));
  }
  if (names.empty()) return;
  std::sort(names.begin(), names.end());
  PrintErrorLine(absl::LogSeverity::kInfo,
                 absl::StrCat("mirrorflow launch: not sent to other hosts: ",
                              absl::StrJoin(names, ", "), "; to send one, set --env=NAME"));
}

}  // namespace

absl::StatusOr<WorkerHosts> HostsFromFlags() {
  WorkerHosts hosts = {.remote_shell =
                           absl::StrSplit(absl::GetFlag(FLAGS_rsh), ' ', absl::SkipEmpty())};
  MF_ASSIGN_OR_RETURN(hosts.hosts, ParseHosts(absl::GetFlag(FLAGS_hosts)));
  if (!hosts.hosts.empty() && hosts.remote_shell.empty()) {
    return absl::InvalidArgumentError("--rsh: empty; expected a command such as 'ssh {host}'");
  }
  return hosts;
}

absl::Status Launch(const std::vector<std::string>& command, ExitCode* code) {
  *code = kExitUsage;
  if (command.empty()) {
    return absl::InvalidArgumentError(
        "launch: no program; expected `mirrorflow launch -n 2 -- PROGRAM [ARGUMENT …]`");
  }
  LaunchOptions options = {
      .command = command,
      .log_dir = absl::GetFlag(FLAGS_log_dir),
      .grace = absl::GetFlag(FLAGS_grace),
      .start_timeout = absl::GetFlag(FLAGS_start_timeout),
      .restarts = {.max_restarts = absl::GetFlag(FLAGS_max_restarts),
                   .exclude_after = absl::GetFlag(FLAGS_exclude_after),
                   .first_pause = absl::GetFlag(FLAGS_restart_pause)},
      .rejoin_timeout = absl::GetFlag(FLAGS_rejoin_timeout).value_or(absl::ZeroDuration()),
      .one_gpu_per_process = absl::GetFlag(FLAGS_one_gpu_per_process)};
  MF_RETURN_IF_ERROR(CheckFlagRange("max_restarts", options.restarts.max_restarts, 0));
  MF_RETURN_IF_ERROR(CheckFlagRange("exclude_after", options.restarts.exclude_after, 0));
  MF_RETURN_IF_ERROR(
      CheckFlagDuration("restart_pause", options.restarts.first_pause, absl::ZeroDuration()));
  MF_RETURN_IF_ERROR(
      CheckFlagDuration("rejoin_timeout", options.rejoin_timeout, absl::ZeroDuration()));
  MF_RETURN_IF_ERROR(CheckFlagDuration("grace", options.grace, absl::ZeroDuration()));
  MF_RETURN_IF_ERROR(
      CheckFlagDuration("start_timeout", options.start_timeout, absl::Milliseconds(100)));
  std::error_code error;
  options.directory = std::filesystem::current_path(error);
  if (error) return SystemError(error.value(), "launch: cannot determine the working directory");
  for (const std::string& text : absl::GetFlag(FLAGS_show)) {
    if (!absl::SimpleAtoi(text, &options.show.emplace_back())) {
      return absl::InvalidArgumentError(
          absl::StrCat("--show: illegal value; expected worker numbers, got '", text, "'"));
    }
  }
  MF_ASSIGN_OR_RETURN(WorkerHosts hosts, HostsFromFlags());
  options.remote_shell = std::move(hosts.remote_shell);
  std::optional<WorkerCount> count;
  if (const std::string n = absl::GetFlag(FLAGS_n); !n.empty()) {
    MF_ASSIGN_OR_RETURN(count, ParseWorkerCount(n));
  }
  MF_ASSIGN_OR_RETURN(
      options.workers,
      PlaceWorkers(std::move(hosts.hosts), count ? std::optional<int>(count->most) : std::nullopt));
  options.min_workers = count ? count->least : static_cast<int>(options.workers.size());
  options.is_elastic = options.min_workers < static_cast<int>(options.workers.size());
  if (options.restarts.exclude_after > 0 && !options.is_elastic) {
    return absl::InvalidArgumentError(
        "--exclude_after: only an elastic job can exclude hosts; expected -n MIN:MAX");
  }
  MF_ASSIGN_OR_RETURN(options.forwarded_variables, AddedVariables());
  if (!absl::GetFlag(FLAGS_hosts).empty()) PrintVariablesThatStay(options.forwarded_variables);
  MF_ASSIGN_OR_RETURN(const int exit_code, RunJob(options));
  *code = static_cast<ExitCode>(exit_code);
  return absl::OkStatus();
}

}  // namespace mirrorflow
