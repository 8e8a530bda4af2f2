// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/launcher.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/terminal.h"
#include "tools/flags/command_line.h"
#include "tools/launch/attempt.h"
#include "tools/launch/worker_output.h"

namespace mirrorflow {
namespace {

// Blocks the signals that ask the launcher to end, and returns a file from which they can be read.
absl::StatusOr<int> OpenSignals() {
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&blocked, signal);
  // `nohup` ignores it.
  struct sigaction hang_up;
  if (sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN) {
    sigaddset(&blocked, SIGHUP);
  }
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  const int signals = signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) return SystemError(errno, "signalfd");
  return signals;
}

// Waits for `pause`, or until there is a signal, which it returns; 0 without one.
int Wait(absl::Duration pause, int signals) {
  pollfd fd = {.fd = signals, .events = POLLIN, .revents = 0};
  const MonotonicTime end = MonotonicTime::Now() + pause;
  for (absl::Duration left = pause; left > absl::ZeroDuration();
       left = end - MonotonicTime::Now()) {
    if (poll(&fd, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) > 0) break;
  }
  signalfd_siginfo info;
  return read(signals, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
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
      PrintErrorLine(absl::StrCat("mirrorflow launch: without host ", excluded,
                                  ", which has failed too often"));
    }
    return left;
  }
  PrintErrorLine(absl::StrCat("mirrorflow launch: host ", excluded,
                              " is taken back, because too few others are left"));
  policy.IncludeAll();
  return options;
}

}  // namespace

absl::StatusOr<int> RunJob(const LaunchOptions& options) {
  MF_ASSIGN_OR_RETURN(WorkerOutput output,
                      WorkerOutput::Create({.num_workers = static_cast<int>(options.workers.size()),
                                            .show = options.show,
                                            .log_dir = options.log_dir}));
  MF_ASSIGN_OR_RETURN(const int signals, OpenSignals());
  const absl::Cleanup close_signals = [signals] { close(signals); };
  output.StopWaitingOn(signals);
  RestartPolicy policy(options.restarts);
  std::string reason;
  for (int restarts = 0;; ++restarts) {
    const LaunchOptions hosts_left = WithoutExcluded(options, policy);
    Attempt attempt(hosts_left, {.count = restarts, .reason = reason}, signals, output);
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
    PrintErrorLine(absl::StrFormat("mirrorflow launch: restart %s, in %.1f s", policy.Text(),
                                   absl::ToDoubleSeconds(*pause)));
    if (const int signal = Wait(*pause, signals); signal != 0) {
      std::fputs("mirrorflow launch: stopped before the restart; the same command goes on\n",
                 stderr);
      return signal == SIGTERM ? static_cast<int>(kExitPreempted) : 128 + signal;
    }
    output.ForgetLastLines();
    reason = attempt.reason();
  }
}

}  // namespace mirrorflow
