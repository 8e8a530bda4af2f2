// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/launcher.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "tools/flags/command_line.h"
#include "tools/launch/attempt.h"
#include "tools/launch/worker_output.h"

namespace mirrorflow {
namespace {

// Whether workers that ended with this code may do better when they start again.
bool CanSucceedAgain(int exit_code) {
  constexpr int kFinal[] = {0,           kExitUsage, kExitBadInput, kExitResources, kExitNumeric,
                            128 + SIGINT};
  return std::find(std::begin(kFinal), std::end(kFinal), exit_code) == std::end(kFinal);
}

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

}  // namespace

absl::StatusOr<int> RunJob(const LaunchOptions& options) {
  MF_ASSIGN_OR_RETURN(WorkerOutput output,
                      WorkerOutput::Create({.num_workers = static_cast<int>(options.workers.size()),
                                            .show = options.show,
                                            .log_dir = options.log_dir}));
  MF_ASSIGN_OR_RETURN(const int signals, OpenSignals());
  const absl::Cleanup close_signals = [signals] { close(signals); };
  output.StopWaitingOn(signals);
  std::string reason;
  for (int restarts = 0;; ++restarts) {
    Attempt attempt(options, {.count = restarts, .reason = reason}, signals, output);
    MF_ASSIGN_OR_RETURN(const int code, attempt.Run());
    const bool restart = restarts < options.max_restarts && CanSucceedAgain(code);
    if (attempt.is_interrupted() || !restart) {
      if (code == kExitOk) MF_RETURN_IF_ERROR(output.status());
      return code;
    }
    std::fprintf(stderr, "mirrorflow launch: restart %d of at most %d\n", restarts + 1,
                 options.max_restarts);
    output.ForgetLastLines();
    reason = attempt.reason();
  }
}

}  // namespace mirrorflow
