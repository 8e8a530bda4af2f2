// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/preemption.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/core/end_requests.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/thread.h"
#include "framework/session/session.h"
#include "framework/workers/connection.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kAgreementTimeout = absl::Minutes(1);
constexpr char kNoSignal[] = "none";  // training ended without a signal

// Process-wide state. It consists of lock-free atomics, because the signal handler uses it.
std::atomic<int> received_signal{0};
std::atomic<bool> has_handler{false};
std::atomic<int> signal_event{-1};  // an eventfd that becomes readable when a signal arrives
EndRequests requests;

void WakeWatcher() {
  const uint64_t one = 1;
  (void)!write(signal_event, &one, sizeof one);
}

void OnSignal(int signal) {
  const EndRequests::Kind kind = requests.Take(signal);
  // If the PreemptionHandler has already handled the first request and been destroyed, the process
  // is about to end, and other workers may need it until then.
  if (kind == EndRequests::Kind::kRepeated) return;
  if (!has_handler) _exit(signal == SIGTERM ? kPreemptedExitCode : 128 + signal);
  if (kind == EndRequests::Kind::kFirst) {
    received_signal = signal;
    WakeWatcher();
  } else {
    ::signal(signal, SIG_DFL);
    raise(signal);
  }
}

void SetStopped(Session& session, int signal) {
  if (!session.connection().has_other_workers()) return;
  session.connection().workers()->SetStopped(absl::StrCat("stopped by SIG", sigabbrev_np(signal)));
}

}  // namespace

absl::Status PreemptionHandler::TakeSignals() {
  if (received_signal != 0) return absl::OkStatus();
  if (signal_event < 0) {
    signal_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (signal_event < 0) return SystemError(errno, "eventfd");
  }
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT}) {
    if (sigaction(signal, &action, nullptr) != 0) return SystemError(errno, "sigaction");
  }
  return absl::OkStatus();
}

PreemptionHandler::PreemptionHandler(Session& session)
    : session_(session), key_(absl::StrCat("stop ", session.NewHandlerNumber())) {}

absl::StatusOr<std::unique_ptr<PreemptionHandler>> PreemptionHandler::Create(Session& session) {
  if (has_handler.exchange(true)) {
    return absl::FailedPreconditionError(
        "preemption: another PreemptionHandler exists; destroy it before you create this one");
  }
  std::unique_ptr<PreemptionHandler> handler(new PreemptionHandler(session));
  if (!session.connection().has_other_workers()) return handler;
  handler->end_of_threads_ = eventfd(0, EFD_CLOEXEC);
  if (handler->end_of_threads_ < 0) return SystemError(errno, "eventfd");
  // Start workers_ first: StopThreads does nothing if workers_ has not been started.
  MF_ASSIGN_OR_RETURN(handler->workers_,
                      StartThread("preemption", [h = handler.get()] { h->WatchWorkers(); }));
  MF_ASSIGN_OR_RETURN(handler->signals_,
                      StartThread("preemption", [h = handler.get()] { h->WatchSignals(); }));
  session.connection().workers()->OnStopRequest([](int signal) {
    int none = 0;
    received_signal.compare_exchange_strong(none, signal);
    WakeWatcher();
  });
  return handler;
}

PreemptionHandler::~PreemptionHandler() {
  // Do this even after a failure: this worker is about to end, so Rejoin must not wait for the
  // replacement of a lost worker.
  if (received_signal != 0) SetStopped(session_, received_signal);
  StopThreads();
  if (end_of_threads_ >= 0) close(end_of_threads_);
  has_handler = false;
}

void PreemptionHandler::StopThreads() {
  if (!workers_.joinable()) return;
  WorkerGroup& group = *session_.connection().workers();
  group.OnStopRequest(nullptr);
  Announce(kNoSignal);
  const uint64_t one = 1;
  (void)!write(end_of_threads_, &one, sizeof one);
  if (signals_.joinable()) signals_.join();
  workers_.join();
}

void PreemptionHandler::WatchSignals() {
  pollfd fds[] = {{.fd = signal_event, .events = POLLIN, .revents = 0},
                  {.fd = end_of_threads_, .events = POLLIN, .revents = 0}};
  while (poll(fds, std::size(fds), -1) < 0 && errno == EINTR) {
  }
  if (fds[0].revents == 0) return;
  Announce(absl::StrCat(received_signal.load()));
}

void PreemptionHandler::Announce(absl::string_view why) {
  WorkerGroup& group = *session_.connection().workers();
  // Use no deadline: the request must not be lost while the service is unreachable.
  const absl::Status told = group.Put(key_, std::string(why), MonotonicTime::InfiniteFuture());
  // AlreadyExists means that another worker has announced its signal first, or that the end of
  // training has been announced. Report any other failure, such as a service without room for the
  // key, to end every worker's wait.
  if (told.ok() || absl::IsAlreadyExists(told)) return;
  group.ReportFailure(told, MonotonicTime::Now() + kAgreementTimeout).IgnoreError();
}

void PreemptionHandler::WatchWorkers() {
  WorkerGroup& group = *session_.connection().workers();
  const absl::StatusOr<std::string> signal = group.Watch(key_);
  // If Watch failed, the next step reports the cluster failure.
  if (!signal.ok() || *signal == kNoSignal) return;
  const absl::StatusOr<int64_t> last = AgreeOnLastRun();
  // The report also ends a worker that hangs before it creates its handler.
  const absl::Status failure =
      last.ok() ? absl::OkStatus()
                : group.ReportFailure(last.status(), MonotonicTime::Now() + kAgreementTimeout);
  MutexLock lock(&mu_);
  if (last.ok()) last_run_ = *last;
  failure_ = failure;
  agreed_.NotifyAll();
}

// Returns the latest run that any worker has begun. A worker that has sent its count begins no
// further run until it has received all counts. Its current run still completes: the other workers
// also begin that run, because they wait only for threads like this one. The deadline is
// PrepareDeadline(), because a worker that is still loading its data has no handler yet.
absl::StatusOr<int64_t> PreemptionHandler::AgreeOnLastRun() {
  WorkerGroup& group = *session_.connection().workers();
  int64_t last;
  {
    MutexLock lock(&mu_);
    is_held_ = true;
    last = begun_;
  }
  MF_ASSIGN_OR_RETURN(const std::vector<std::string> runs,
                      group.AllGather(absl::StrCat(key_, ": runs"), absl::StrCat(last),
                                      session_.PrepareDeadline()));
  for (const std::string& text : runs) {
    int64_t run;
    if (!absl::SimpleAtoi(text, &run)) {
      return absl::InternalError(absl::StrCat(
          "malformed message from a worker; expected its run count, got '", text, "'"));
    }
    last = std::max(last, run);
  }
  return last;
}

bool PreemptionHandler::MayBegin() {
  if (!session_.connection().has_other_workers()) return received_signal == 0;
  MutexLock lock(&mu_);
  while (is_held_ && !last_run_.has_value() && failure_.ok()) agreed_.Wait(lock);
  if (!failure_.ok() || (last_run_.has_value() && begun_ >= *last_run_)) return false;
  ++begun_;
  return true;
}

absl::StatusOr<std::optional<int>> PreemptionHandler::Finish() {
  std::optional<int> stopped;
  if (!session_.connection().has_other_workers()) {
    if (received_signal != 0) stopped = received_signal;
    return stopped;
  }
  StopThreads();
  {
    MutexLock lock(&mu_);
    MF_RETURN_IF_ERROR(failure_);
  }
  WorkerGroup& group = *session_.connection().workers();
  MF_ASSIGN_OR_RETURN(const std::string signal,
                      group.Get(key_, MonotonicTime::Now() + kAgreementTimeout));
  int number;
  if (absl::SimpleAtoi(signal, &number)) {
    stopped = number;
    SetStopped(session_, number);
  }
  return stopped;
}

}  // namespace mirrorflow
