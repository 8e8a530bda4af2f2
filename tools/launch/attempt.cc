// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/attempt.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distribute/cluster/connections/authentication.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/terminal.h"
#include "tools/flags/command_line.h"
#include "tools/launch/forwarded_variables.h"

extern char** environ;

namespace mirrorflow {
namespace {

// An elastic job that has enough workers waits so long for the other hosts.
constexpr absl::Duration kAnswerTimeout = absl::Seconds(5);
// How soon an elastic job that has too few workers asks the other hosts again.
constexpr absl::Duration kAskAgainInterval = absl::Seconds(1);
constexpr size_t kMaxEarlyErrors = 4096;
// How much longer than --grace the launcher waits for a supervisor, which may be on another host.
constexpr absl::Duration kSupervisorSlack = absl::Seconds(5);
// How long workers may take to end by themselves that know more of the first failure: the one that
// another blames, or those that lose one that a signal has ended.
constexpr absl::Duration kCauseTimeout = absl::Seconds(1);
// How long supervisors may take to end after their orders.
constexpr absl::Duration kEndTimeout = absl::Seconds(1);

constexpr size_t kSecretBytes = 32, kJobBytes = 8;

std::string HostText(const LaunchHost& host) {
  return host.name.empty() ? "this machine" : absl::StrCat("host ", host.name);
}

// The last line, in parentheses after a space; empty without one.
std::string LastLineText(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  const absl::string_view line = text.substr(text.rfind('\n') + 1);
  return line.empty() ? "" : absl::StrCat(" (", line, ")");
}

}  // namespace

// ---- conditions ---------------------------------------------------------------------------------

bool Attempt::is_over() const {
  return !gathering_ &&
         std::all_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.ended; });
}

bool Attempt::is_starting() const {
  const auto waits = [](const Worker& w) { return !w.started && !w.ended; };
  return !ending_ && (gathering_ || std::any_of(workers_.begin(), workers_.end(), waits));
}

int Attempt::num_ready() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(),
                                        [](const Worker& w) { return w.ready && !w.ended; }));
}

bool Attempt::has_heard_all() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Worker& w) { return w.ready || w.ended; });
}

MonotonicTime Attempt::NextDeadline() const {
  MonotonicTime next = std::min(kill_at_, end_all_at_);
  if (is_starting()) next = std::min(next, begin_ + options_.start_timeout);
  if (!gathering_) return next;
  if (num_ready() >= options_.min_workers) return std::min(next, begin_ + kAnswerTimeout);
  return has_heard_all() ? std::min(next, ask_again_at_) : next;
}

// ---- start --------------------------------------------------------------------------------------

absl::StatusOr<int> Attempt::Run() {
  secret_ = absl::BytesToHexString(RandomBytes(kSecretBytes));
  job_ = absl::BytesToHexString(RandomBytes(kJobBytes));
  begin_ = MonotonicTime::Now();
  workers_.resize(options_.workers.size());
  for (size_t w = 0; w < workers_.size(); ++w) {
    workers_[w].host = options_.workers[w].host;
    workers_[w].end.worker = static_cast<int>(w);
    workers_[w].end.host = workers_[w].host.name;
    MF_RETURN_IF_ERROR(Spawn(workers_[w]));
  }
  while (!is_over()) MF_RETURN_IF_ERROR(Serve());
  return ExitCodeOfJob();
}

absl::Status Attempt::Spawn(Worker& worker) {
  worker.ended = false;
  worker.early_errors.clear();
  MF_ASSIGN_OR_RETURN(worker.supervisor,
                      SupervisorProcess::Spawn(worker.host, options_.remote_shell));
  return absl::OkStatus();
}

// Begins once enough hosts have answered. While too few can, asks the others again.
absl::Status Attempt::Gather() {
  const MonotonicTime now = MonotonicTime::Now();
  if (num_ready() >= options_.min_workers) {
    if (has_heard_all() || now >= begin_ + kAnswerTimeout) Begin();
  } else if (has_heard_all() && now >= ask_again_at_) {
    ask_again_at_ = MonotonicTime::InfiniteFuture();
    for (Worker& worker : workers_) {
      if (worker.ended) MF_RETURN_IF_ERROR(Spawn(worker));
    }
  }
  return absl::OkStatus();
}

// Names the hosts that have not answered, or not for all of their workers.
std::string Attempt::AbsentText() const {
  struct Answers {
    int ready = 0, all = 0;
    std::string error;
  };
  std::map<std::string, Answers> hosts;  // by text
  for (const Worker& worker : workers_) {
    Answers& answers = hosts[HostText(worker.host)];
    ++answers.all;
    if (worker.ready) ++answers.ready;
    if (answers.error.empty()) answers.error = LastLineText(worker.early_errors);
  }
  std::vector<std::string> texts;
  for (const auto& [host, answers] : hosts) {
    if (answers.ready == answers.all) continue;
    const std::string what = answers.ready == 0 ? " does not answer"
                                                : absl::StrCat(" answers for ", answers.ready,
                                                               " of ", answers.all, " workers");
    texts.push_back(absl::StrCat(host, what, answers.error));
  }
  return absl::StrJoin(texts, ", ");
}

// Numbers the workers that are ready, and drops the others.
void Attempt::Begin() {
  gathering_ = false;
  if (num_ready() < static_cast<int>(workers_.size())) {
    PrintErrorLine(absl::StrCat("mirrorflow launch: ", num_ready(), " of at most ", workers_.size(),
                                " workers; ", AbsentText()));
  }
  const auto is_silent = [](const Worker& worker) { return !worker.ready && !worker.ended; };
  for (Worker& worker : workers_) {
    if (is_silent(worker)) worker.supervisor->Kill();
  }
  for (Worker& worker : workers_) {
    if (is_silent(worker)) worker.supervisor->Reap();
  }
  std::erase_if(workers_, [](const Worker& worker) { return !worker.ready; });
  std::vector<LaunchHost> hosts;
  for (size_t w = 0; w < workers_.size(); ++w) {
    const auto number = static_cast<int>(w);
    workers_[w].end.worker = number;
    output_.Add(number, WorkerOutput::kErrors, std::exchange(workers_[w].early_errors, ""));
    hosts.push_back(workers_[w].host);
  }
  placed_ = RankOnHosts(std::move(hosts));
  launch::Order find_ports;
  find_ports.set_find_ports(NumPorts(static_cast<int>(workers_.size())));
  workers_[0].supervisor->Send(find_ports);
}

void Attempt::StartWorkers(const launch::Ports& ports) {
  const std::vector<int> numbers(ports.ports().begin(), ports.ports().end());
  for (size_t w = 0; w < workers_.size(); ++w) {
    if (!workers_[w].ended) {
      workers_[w].supervisor->Send(StartOrder(static_cast<int>(w), numbers));
    }
  }
}

launch::Order Attempt::StartOrder(int index, absl::Span<const int> ports) {
  const Placement& placement = placed_[index];
  std::map<std::string, std::string> variables;
  if (!placement.host.name.empty()) {
    variables = ForwardedVariables(environ, options_.forwarded_variables);
  }
  for (auto& [name, value] : VariablesOfWorker(placed_, index, ports)) variables[name] = value;
  variables["MIRRORFLOW_JOB"] = absl::StrCat("launch ", job_);
  variables["MIRRORFLOW_RESTART_COUNT"] = absl::StrCat(restart_.count);
  variables["MIRRORFLOW_RESTART_REASON"] = restart_.reason;
  if (options_.one_gpu_per_process) {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    workers_[index].end.gpu = variables["CUDA_VISIBLE_DEVICES"] =
        GpuOfWorker(placement.local_rank, visible == nullptr ? "" : visible);
  }
  launch::Order order;
  launch::Start& start = *order.mutable_start();
  for (const std::string& word : options_.command) start.add_command(word);
  start.set_directory(options_.directory);
  for (const auto& [name, value] : variables) {
    start.add_environment(absl::StrCat(name, "=", value));
  }
  start.set_secret(secret_);
  start.set_grace_ms(absl::ToInt64Milliseconds(options_.grace));
  return order;
}

// ---- service ------------------------------------------------------------------------------------

// Waits for something to do, and does it.
absl::Status Attempt::Serve() {
  std::vector<pollfd> fds = {{.fd = signals_, .events = POLLIN, .revents = 0}};
  for (const Worker& worker : workers_) {
    const SupervisorProcess& supervisor = *worker.supervisor;
    fds.push_back({.fd = supervisor.events(), .events = POLLIN, .revents = 0});
    fds.push_back({.fd = supervisor.errors(), .events = POLLIN, .revents = 0});
    fds.push_back({.fd = supervisor.unsent(), .events = POLLOUT, .revents = 0});
  }
  const MonotonicTime next = NextDeadline();
  const int timeout =
      next == MonotonicTime::InfiniteFuture()
          ? -1
          : static_cast<int>(std::clamp<int64_t>(
                absl::ToInt64Milliseconds(next - MonotonicTime::Now()) + 1, 0, 1'000'000));
  if (poll(fds.data(), fds.size(), timeout) < 0 && errno != EINTR) {
    return SystemError(errno, "poll");
  }
  PassDeadlines();
  if (fds[0].revents != 0) TakeSignals();
  for (size_t w = 0; w < workers_.size(); ++w) {
    const auto index = static_cast<int>(w);
    if (fds[3 + 3 * w].revents != 0) workers_[w].supervisor->SendMore();
    if (fds[2 + 3 * w].revents != 0) TakeErrors(index);
    if (fds[1 + 3 * w].revents != 0) TakeEvents(index);
  }
  return gathering_ ? Gather() : absl::OkStatus();
}

void Attempt::PassDeadlines() {
  const MonotonicTime now = MonotonicTime::Now();
  if (now >= kill_at_) return KillSupervisors();
  if (now >= end_all_at_) EndAll(SIGTERM);
  if (is_starting() && now >= begin_ + options_.start_timeout) MissStartDeadline();
}

void Attempt::MissStartDeadline() {
  std::vector<std::string> missing;
  for (const Worker& worker : workers_) {
    if (gathering_ ? worker.ready && !worker.ended : worker.started || worker.ended) continue;
    missing.push_back(absl::StrCat(worker.end.worker, " on ", HostText(worker.host),
                                   LastLineText(worker.early_errors)));
  }
  const int all = gathering_ ? options_.min_workers : static_cast<int>(workers_.size());
  const int present = static_cast<int>(workers_.size() - missing.size());
  reason_ = absl::StrCat(present, " of ", gathering_ && options_.is_elastic ? "at least " : "", all,
                         " workers started within ", absl::FormatDuration(options_.start_timeout),
                         "; missing: ", absl::StrJoin(missing, ", "));
  PrintErrorLine(absl::StrCat("mirrorflow launch: ", reason_));
  exit_code_ = kExitStartTimeout;
  EndAll(SIGTERM);
  for (const Worker& worker : workers_) {
    if (!worker.started && !worker.ended) worker.supervisor->Kill();
  }
}

// Ends the supervisors themselves, first by ending their orders, then by SIGKILL.
void Attempt::KillSupervisors() {
  const bool again = std::exchange(killing_, true);
  kill_at_ = again ? MonotonicTime::InfiniteFuture() : MonotonicTime::Now() + kEndTimeout;
  for (Worker& worker : workers_) {
    if (worker.ended) continue;
    worker.supervisor->CloseOrders();
    if (again) worker.supervisor->Kill();
  }
}

void Attempt::TakeSignals() {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof(info)) == sizeof(info)) {
    const auto signal = static_cast<int>(info.ssi_signo);
    const EndRequests::Kind kind = requests_.Take(signal);
    if (kind == EndRequests::Kind::kRepeated) continue;
    const bool again = kind == EndRequests::Kind::kSecond;
    interrupted_ = true;
    exit_code_ = 128 + signal;
    EndAll(again ? SIGKILL : signal);
    if (again) kill_at_ = std::min(kill_at_, MonotonicTime::Now() + kEndTimeout);
  }
}

// Asks all workers that still run to end. Hosts that have not answered are no longer waited for.
void Attempt::EndAll(int signal) {
  gathering_ = false;
  ending_ = true;
  end_all_at_ = MonotonicTime::InfiniteFuture();
  launch::Order order;
  order.set_signal(signal);
  for (Worker& worker : workers_) {
    if (worker.ended) continue;
    worker.end.asked_to_end = true;
    if (!worker.ready) worker.supervisor->Kill();
    worker.supervisor->Send(order);
  }
  kill_at_ = std::min(kill_at_, MonotonicTime::Now() + options_.grace + kSupervisorSlack);
}

void Attempt::TakeErrors(int index) {
  Worker& worker = workers_[index];
  const std::string text = worker.supervisor->ReadErrors();
  if (has_numbers()) {
    output_.Add(index, WorkerOutput::kErrors, text);
    return;
  }
  std::string& early = worker.early_errors;
  early += text;
  if (early.size() > kMaxEarlyErrors) early.erase(0, early.size() - kMaxEarlyErrors);
}

// ---- events -------------------------------------------------------------------------------------

void Attempt::TakeEvents(int index) {
  Worker& worker = workers_[index];
  const absl::StatusOr<bool> more = worker.supervisor->ReadEvents();
  absl::Status status = more.status();
  while (status.ok() && !worker.ended) {
    launch::Event event;
    const absl::StatusOr<bool> whole = worker.supervisor->NextEvent(&event);
    status = whole.status();
    if (!status.ok() || !*whole) break;
    TakeEvent(index, event);
  }
  if (worker.ended || (status.ok() && *more)) return;
  if (gathering_ && options_.is_elastic) return FailToAnswer(index, status);
  // Without an event that says how the worker ended.
  const bool is_remote = !worker.host.name.empty();
  worker.end.message = !status.ok()                   ? std::string(status.message())
                       : is_remote && !worker.started ? "the remote shell has not started it"
                                                      : "its supervisor has ended";
  // The exit code of a supervisor that sends nonsense says nothing.
  if (!status.ok()) worker.supervisor->Kill();
  End(index, /*exit_code=*/status.ok() ? -1 : 1);
}

void Attempt::TakeEvent(int index, const launch::Event& event) {
  Worker& worker = workers_[index];
  switch (event.event_case()) {
    case launch::Event::kReady:
      worker.ready = true;
      break;
    case launch::Event::kPorts:
      StartWorkers(event.ports());
      break;
    case launch::Event::kStarted:
      worker.started = true;
      worker.end.process = event.started();
      break;
    case launch::Event::kOutput:
      output_.Add(index, WorkerOutput::kOutput, event.output());
      break;
    case launch::Event::kErrors:
      output_.Add(index, WorkerOutput::kErrors, event.errors());
      break;
    case launch::Event::kSaved:
      saved_step_ = std::max(saved_step_, event.saved());
      break;
    case launch::Event::kEnded: {
      const launch::Ended& ended = event.ended();
      worker.end.signal = ended.signal();
      worker.end.message = ended.not_started();
      TakeErrorFile(ended.error_file(), &worker.end);
      const int code = ended.signal() != 0 ? 128 + ended.signal() : ended.exit_code();
      // A worker that was not started may have a code that says why.
      End(index, ended.not_started().empty() || code != 0 ? code : kExitNotStarted);
      break;
    }
    case launch::Event::EVENT_NOT_SET:
      break;
  }
}

// The host of a placement of an elastic job cannot be reached. If too few others can, it is asked
// again. `why`: OK if its remote shell has ended.
void Attempt::FailToAnswer(int index, const absl::Status& why) {
  Worker& worker = workers_[index];
  worker.supervisor->Kill();
  worker.supervisor->Reap();
  TakeErrors(index);
  if (!why.ok()) absl::StrAppend(&worker.early_errors, "\n", why.message());
  worker.supervisor->CloseErrors();
  worker.ready = false;
  worker.ended = true;
  ask_again_at_ = MonotonicTime::Now() + kAskAgainInterval;
}

// `exit_code`: of the worker; -1: that of its supervisor or remote shell.
void Attempt::End(int index, int exit_code) {
  Worker& worker = workers_[index];
  worker.ended = true;
  worker.end.time = absl::Now();
  worker.end.after = MonotonicTime::Now() - begin_;
  const int status = worker.supervisor->Reap();
  if (exit_code < 0) {
    exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (exit_code == 0) exit_code = 1;
  }
  TakeErrors(index);
  worker.supervisor->CloseErrors();
  output_.Finish(index);
  worker.end.exit_code = exit_code;
  ends_.push_back(worker.end);
  if (exit_code == 0 || worker.end.asked_to_end) return;
  // After a stop, the others stop after the same step: a second signal would end one that is
  // saving. The worker that a victim blames may be about to say itself why it ends, and one that a
  // signal has ended cannot say so: the others do.
  const bool others_know_more = worker.end.is_victim || worker.end.signal != 0;
  const absl::Duration patience = exit_code == kExitPreempted ? options_.grace
                                  : others_know_more          ? kCauseTimeout
                                                              : absl::ZeroDuration();
  end_all_at_ = std::min(end_all_at_, MonotonicTime::Now() + patience);
  if (patience == absl::ZeroDuration()) EndAll(SIGTERM);
}

int Attempt::ExitCodeOfJob() {
  const bool have_succeeded =
      !ends_.empty() && std::all_of(ends_.begin(), ends_.end(),
                                    [](const WorkerEnd& end) { return end.exit_code == 0; });
  if (have_succeeded) return 0;  // even if a signal came meanwhile
  const absl::Duration after = MonotonicTime::Now() - begin_;
  const WorkerEnd* const first = FirstFailure(ends_);
  // A scheduler that sends SIGTERM to all processes may have come to the launcher last.
  if (first != nullptr && first->exit_code == 128 + SIGTERM) TakeSignals();
  if (first != nullptr && reason_.empty()) reason_ = EndText(*first);
  failed_host_ = HostAtFault(ends_);
  if ((exit_code_ == 0 || exit_code_ == 128 + SIGTERM) && HasStopped(ends_, exit_code_ != 0)) {
    std::fputs(StopReport(ends_, after).c_str(), stderr);
    return kExitPreempted;
  }
  // After an interruption or a missed deadline, how the workers ended is only a consequence.
  if (exit_code_ != 0) return exit_code_;
  if (first == nullptr) return 0;
  const std::string report =
      FailureReport(*first, ends_, first->after, output_.LastLines(first->worker));
  std::fputs(report.c_str(), stderr);
  return first->exit_code;
}

}  // namespace mirrorflow
