// SPDX-License-Identifier: Apache-2.0
#include "framework/core/state_report.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "framework/core/log.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/thread.h"

namespace mirrorflow {
namespace {

struct Registry {
  Mutex mu;  // held while reports produce their lines
  std::vector<const StateReport*> reports ABSL_GUARDED_BY(mu);
};
Registry& TheRegistry() {
  static auto* const registry = new Registry();
  return *registry;
}

std::atomic<int> signal_event{-1};     // an eventfd, readable once a signal has been received
std::atomic<pid_t> signal_process{0};  // forked processes inherit the eventfd but do not report

void OnSignal(int) {
  if (getpid() != signal_process) return;
  const int error = errno;
  const uint64_t one = 1;
  (void)!write(signal_event, &one, sizeof one);
  errno = error;
}

void AwaitSignals() {
  for (uint64_t count = 0;;) {
    if (read(signal_event, &count, sizeof count) < 0 && errno != EINTR) return;
    if (std::exchange(count, 0) > 0) StateReport::LogAll();
  }
}

absl::Status Install() {
  signal_event = eventfd(0, EFD_CLOEXEC);
  if (signal_event < 0) return SystemError(errno, "eventfd");
  signal_process = getpid();
  // The thread inherits the signal mask, so it does not take signals that other threads wait for.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::StatusOr<std::thread> thread = StartThread("state reports", AwaitSignals);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  MF_RETURN_IF_ERROR(thread.status());
  thread->detach();
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  if (sigaction(SIGUSR1, &action, nullptr) != 0) return SystemError(errno, "sigaction");
  return absl::OkStatus();
}

}  // namespace

StateReport::StateReport(Lines lines) : lines_(std::move(lines)) {
  MutexLock lock(&TheRegistry().mu);
  TheRegistry().reports.push_back(this);
}

StateReport::~StateReport() {
  MutexLock lock(&TheRegistry().mu);
  std::erase(TheRegistry().reports, this);
}

void StateReport::LogAll() {
  // Log after releasing the lock: logging can take a while, and must not block ~StateReport.
  std::vector<std::string> lines;
  bool is_empty;
  {
    MutexLock lock(&TheRegistry().mu);
    is_empty = TheRegistry().reports.empty();
    for (const StateReport* const report : TheRegistry().reports) {
      for (std::string& line : report->lines_()) lines.push_back(std::move(line));
    }
  }
  if (is_empty) LogInfo("no session is connected");
  for (const std::string& line : lines) LogInfo(line);
}

std::vector<std::string> StateReport::Summary() {
  std::vector<std::string> summary;
  MutexLock lock(&TheRegistry().mu);
  for (const StateReport* const report : TheRegistry().reports) {
    std::vector<std::string> lines = report->lines_();
    if (!lines.empty()) summary.push_back(std::move(lines.front()));
  }
  return summary;
}

absl::Status StateReport::LogOnSignal() {
  static const absl::Status installed = Install();
  return installed;
}

}  // namespace mirrorflow
