// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/attempt.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distribute/cluster/connections/authentication.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "tools/flags/command_line.h"
#include "tools/launch/forwarded_variables.h"

extern char** environ;

namespace mirrorflow {
namespace {

// How many hosts are asked at the same time. All connections may go through one jump host, whose
// sshd accepts at most 100 unauthenticated connections (MaxStartups 10:30:100). Thousands of hosts
// must answer within the start timeout.
constexpr int kMaxAsked = 32;
// After this long, a silent host no longer delays the requests to other hosts, or the start of an
// elastic job that has enough workers.
constexpr absl::Duration kAnswerTimeout = absl::Seconds(5);
// How soon an elastic job that has too few workers again asks the hosts that did not answer.
constexpr absl::Duration kAskAgainInterval = absl::Seconds(1);
constexpr size_t kMaxEarlyErrors = 4096;
// How much longer than --grace the launcher waits for a supervisor, which can be on another host.
constexpr absl::Duration kSupervisorSlack = absl::Seconds(5);
// How long the launcher lets workers end by themselves if they may know more about the first
// failure: the worker that another worker blames, or the peers of a worker killed by a signal.
constexpr absl::Duration kCauseTimeout = absl::Seconds(1);
// Workers lost within this time of a counted loss are not counted again, because the cause is
// probably the same, such as a lack of memory.
constexpr absl::Duration kSameLossTimeout = absl::Seconds(1);
// How long supervisors can take to end once the launcher has closed their orders.
constexpr absl::Duration kEndTimeout = absl::Seconds(1);
// How much longer than the other workers a restarted worker can take to end, if the job has made no
// visible progress since the restart.
constexpr absl::Duration kLastWorkersTimeout = absl::Seconds(5);

constexpr size_t kSecretBytes = 32, kJobBytes = 8;

std::string HostText(const LaunchHost& host) {
  return host.name.empty() ? "this machine" : absl::StrCat("host ", host.name);
}

// Returns ` (LINE)`, where LINE is the last line of `text`, or an empty string if there is none.
std::string LastLineText(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  const absl::string_view line = text.substr(text.rfind('\n') + 1);
  return line.empty() ? "" : absl::StrCat(" (", line, ")");
}

}  // namespace

// ---- conditions ---------------------------------------------------------------------------------

bool Attempt::is_over() const {
  return !gathering_ && absl::c_all_of(hosts_, [](const Host& host) { return host.ended; });
}

bool Attempt::is_starting() const {
  const auto waits = [](const Worker& w) { return !w.started && !w.ended && !w.starts_again; };
  return !ending_ && (gathering_ || absl::c_any_of(workers_, waits));
}

int Attempt::num_ready() const {
  int workers = 0;
  for (const Host& host : hosts_) {
    if (host.ready && !host.ended) workers += host.num_workers;
  }
  return workers;
}

bool Attempt::has_heard_all() const {
  return absl::c_all_of(hosts_, [](const Host& host) { return host.ready || host.ended; });
}

bool Attempt::is_awaited(const Host& host, MonotonicTime now) {
  return host.supervisor != nullptr && !host.ready && !host.ended &&
         now < host.asked_at + kAnswerTimeout;
}

MonotonicTime Attempt::NextDeadline() const {
  MonotonicTime next = std::min(kill_at_, end_all_at_);
  for (const Worker& worker : workers_) next = std::min(next, worker.again_at);
  if (is_starting()) next = std::min(next, begin_ + options_.start_timeout);
  if (!gathering_) return next;
  const MonotonicTime now = MonotonicTime::Now();
  for (const Host& host : hosts_) {
    if (is_awaited(host, now)) next = std::min(next, host.asked_at + kAnswerTimeout);
  }
  return has_heard_all() ? std::min(next, ask_again_at_) : next;
}

// ---- start --------------------------------------------------------------------------------------

absl::StatusOr<int> Attempt::Run() {
  secret_ = absl::BytesToHexString(RandomBytes(kSecretBytes));
  job_ = absl::StrCat("launch ", absl::BytesToHexString(RandomBytes(kJobBytes)));
  log_identity_.emplace(job_, /*worker=*/std::nullopt);
  begin_ = MonotonicTime::Now();
  for (const Placement& placement : options_.workers) {
    if (placement.local_rank > 0) continue;
    Host& host = hosts_.emplace_back();
    host.host = placement.host;
    host.num_workers = placement.local_size;
    AddWorkers(host);
  }
  MF_RETURN_IF_ERROR(AskHosts(begin_));
  while (!is_over()) MF_RETURN_IF_ERROR(Serve());
  return ExitCodeOfJob();
}

// Assigns the next numbers to the workers of a host.
void Attempt::AddWorkers(Host& host) {
  host.first_worker = static_cast<int>(workers_.size());
  for (int rank = 0; rank < host.num_workers; ++rank) {
    WorkerEnd& end = workers_.emplace_back().end;
    end.worker = host.first_worker + rank;
    end.host = host.host.name;
    placed_.push_back({host.host, rank, host.num_workers});
  }
}

// Asks the hosts that have not been asked yet, up to the limit on hosts asked at the same time.
absl::Status Attempt::AskHosts(MonotonicTime now) {
  auto asked = absl::c_count_if(hosts_, [now](const Host& host) { return is_awaited(host, now); });
  for (Host& host : hosts_) {
    if (host.supervisor != nullptr || host.ended || asked == kMaxAsked) continue;
    MF_ASSIGN_OR_RETURN(host.supervisor, SupervisorProcess::Spawn(host.host, host.num_workers,
                                                                  options_.remote_shell));
    host.asked_at = MonotonicTime::Now();
    ++asked;
  }
  return absl::OkStatus();
}

// Begins once enough hosts have answered. If too few hosts can answer, asks the remaining ones
// again.
absl::Status Attempt::Gather() {
  const MonotonicTime now = MonotonicTime::Now();
  MF_RETURN_IF_ERROR(AskHosts(now));
  if (num_ready() >= options_.min_workers) {
    const auto waits = [now](const Host& host) { return is_awaited(host, now); };
    if (absl::c_none_of(hosts_, waits)) Begin();
  } else if (has_heard_all() && now >= ask_again_at_) {
    ask_again_at_ = MonotonicTime::InfiniteFuture();
    for (Host& host : hosts_) {
      if (!host.ended) continue;
      host.supervisor.reset();
      host.early_errors.clear();
      host.ended = false;
    }
    return AskHosts(now);
  }
  return absl::OkStatus();
}

// Returns a text that names the hosts that have not answered.
std::string Attempt::AbsentText() const {
  std::vector<std::string> texts;
  for (const Host& host : hosts_) {
    if (host.ready) continue;
    texts.push_back(
        absl::StrCat(HostText(host.host), " does not answer", LastLineText(host.early_errors)));
  }
  return absl::StrJoin(texts, ", ");
}

// Numbers the workers of the hosts that are ready, and drops the others.
void Attempt::Begin() {
  gathering_ = false;
  if (num_ready() < static_cast<int>(workers_.size())) {
    PrintErrorLine(absl::LogSeverity::kWarning,
                   absl::StrCat("mirrorflow launch: ", num_ready(), " of at most ", workers_.size(),
                                " workers; ", AbsentText()));
  }
  const auto is_silent = [](const Host& host) { return !host.ready && !host.ended; };
  for (Host& host : hosts_) {
    if (is_silent(host)) host.supervisor->Kill();
  }
  for (Host& host : hosts_) {
    if (is_silent(host)) host.supervisor->Reap();
  }
  std::erase_if(hosts_, [](const Host& host) { return !host.ready; });
  workers_.clear();
  placed_.clear();
  has_numbers_ = true;
  for (Host& host : hosts_) {
    AddWorkers(host);
    output_.Add(host.first_worker, WorkerOutput::kErrors, std::exchange(host.early_errors, ""));
  }
  launch::Order find_ports;
  find_ports.set_find_ports(NumPorts(static_cast<int>(workers_.size())));
  hosts_[0].supervisor->Send(find_ports);
}

void Attempt::StartWorkers() {
  for (const Host& host : hosts_) {
    for (const Worker& worker : WorkersOf(host)) {
      if (!worker.ended) host.supervisor->Send(StartOrder(worker.end.worker));
    }
  }
}

launch::Order Attempt::StartOrder(int index) {
  const Placement& placement = placed_[index];
  std::map<std::string, std::string> variables;
  if (!placement.host.name.empty()) {
    variables = ForwardedVariables(environ, options_.forwarded_variables);
  }
  for (auto& [name, value] : VariablesOfWorker(placed_, index, ports_)) variables[name] = value;
  variables["MIRRORFLOW_JOB"] = job_;
  // The launcher's output already names the worker of each line.
  const char* const format = std::getenv("MIRRORFLOW_LOG_FORMAT");
  if (format == nullptr || *format == '\0') variables["MIRRORFLOW_LOG_FORMAT"] = "plain";
  variables["MIRRORFLOW_RESTART_COUNT"] = absl::StrCat(restart_.count);
  variables["MIRRORFLOW_RESTART_REASON"] = restart_.reason;
  variables["MIRRORFLOW_REJOIN_TIMEOUT"] = absl::FormatDuration(options_.rejoin_timeout);
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
  start.set_slot(placement.local_rank);
  start.set_grace_ms(absl::ToInt64Milliseconds(options_.grace));
  return order;
}

// ---- service ------------------------------------------------------------------------------------

// Waits for an event or a deadline and handles it.
absl::Status Attempt::Serve() {
  std::vector<pollfd> fds = {{.fd = signals_, .events = POLLIN, .revents = 0}};
  for (const Host& host : hosts_) {
    const SupervisorProcess* const s = host.supervisor.get();
    fds.push_back({.fd = s == nullptr ? -1 : s->events(), .events = POLLIN, .revents = 0});
    fds.push_back({.fd = s == nullptr ? -1 : s->errors(), .events = POLLIN, .revents = 0});
    fds.push_back({.fd = s == nullptr ? -1 : s->unsent(), .events = POLLOUT, .revents = 0});
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
  for (size_t h = 0; h < hosts_.size(); ++h) {
    if (fds[3 + 3 * h].revents != 0) hosts_[h].supervisor->SendMore();
    if (fds[2 + 3 * h].revents != 0) TakeErrors(hosts_[h]);
    if (fds[1 + 3 * h].revents != 0) TakeEvents(hosts_[h]);
  }
  if (gathering_) return Gather();
  RestartLostWorkers();
  return absl::OkStatus();
}

void Attempt::PassDeadlines() {
  const MonotonicTime now = MonotonicTime::Now();
  if (now >= kill_at_) return KillSupervisors();
  if (now >= end_all_at_) {
    if (awaits_last_) {
      exit_code_ = kExitCluster;
      reason_ = restart_.reason;
    }
    EndAll(SIGTERM);
  }
  if (is_starting() && now >= begin_ + options_.start_timeout) MissStartDeadline();
}

void Attempt::RestartLostWorkers() {
  const MonotonicTime now = MonotonicTime::Now();
  for (Host& host : hosts_) {
    for (Worker& worker : WorkersOf(host)) {
      if (now < worker.again_at) continue;
      worker.again_at = MonotonicTime::InfiniteFuture();
      worker.started = worker.ended = false;
      host.supervisor->Send(StartOrder(worker.end.worker));
    }
  }
}

void Attempt::MissStartDeadline() {
  std::vector<std::string> missing;
  for (const Host& host : hosts_) {
    for (const Worker& worker : WorkersOf(host)) {
      if (gathering_ ? host.ready && !host.ended : worker.started || worker.ended) continue;
      missing.push_back(absl::StrCat(worker.end.worker, " on ", HostText(host.host),
                                     LastLineText(host.early_errors)));
    }
  }
  const int all = gathering_ ? options_.min_workers : static_cast<int>(workers_.size());
  const int present = static_cast<int>(workers_.size() - missing.size());
  reason_ = absl::StrCat(present, " of ", gathering_ && options_.is_elastic ? "at least " : "", all,
                         " workers started within ", absl::FormatDuration(options_.start_timeout),
                         "; missing: ", absl::StrJoin(missing, ", "));
  PrintErrorLine(absl::LogSeverity::kError, absl::StrCat("mirrorflow launch: ", reason_));
  exit_code_ = kExitStartTimeout;
  EndAll(SIGTERM);
  for (const Host& host : hosts_) {
    const auto runs = [](const Worker& worker) { return worker.started && !worker.ended; };
    if (!host.ended && absl::c_none_of(WorkersOf(host), runs)) host.supervisor->Kill();
  }
}

// Ends the supervisors themselves: the first call closes their orders, the second sends SIGKILL.
void Attempt::KillSupervisors() {
  const bool again = std::exchange(killing_, true);
  kill_at_ = again ? MonotonicTime::InfiniteFuture() : MonotonicTime::Now() + kEndTimeout;
  for (Host& host : hosts_) {
    if (host.ended) continue;
    host.supervisor->CloseOrders();
    if (again) host.supervisor->Kill();
  }
}

void Attempt::TakeSignals() {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof(info)) == sizeof(info)) {
    const auto signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGUSR1) {
      AskForReports();
      continue;
    }
    const EndRequests::Kind kind = requests_.Take(signal);
    if (kind == EndRequests::Kind::kRepeated) continue;
    const bool again = kind == EndRequests::Kind::kSecond;
    interrupted_ = true;
    exit_code_ = 128 + signal;
    EndAll(again ? SIGKILL : signal);
    if (again) kill_at_ = std::min(kill_at_, MonotonicTime::Now() + kEndTimeout);
  }
}

void Attempt::AskForReports() {
  launch::Order order;
  order.mutable_report();
  for (const Host& host : hosts_) {
    if (host.ready && !host.ended) host.supervisor->Send(order);
  }
}

// Asks all running workers to end. Stops waiting for hosts that have not answered.
void Attempt::EndAll(int signal) {
  gathering_ = false;
  ending_ = true;
  end_all_at_ = MonotonicTime::InfiniteFuture();
  launch::Order order;
  order.set_signal(signal);
  for (Host& host : hosts_) {
    for (Worker& worker : WorkersOf(host)) {
      if (worker.ended && !worker.is_pausing()) continue;
      worker.end.asked_to_end = true;
      if (!worker.is_pausing()) continue;
      worker.again_at = MonotonicTime::InfiniteFuture();
      AddEnd(host, worker, 128 + signal);
    }
    if (host.ended) continue;
    if (host.supervisor == nullptr) {
      for (Worker& worker : WorkersOf(host)) AddEnd(host, worker, 128 + signal);
      host.ended = true;
      continue;
    }
    if (is_done(host)) {
      Release(host);
      continue;
    }
    if (!host.ready) host.supervisor->Kill();
    host.supervisor->Send(order);
  }
  kill_at_ = std::min(kill_at_, MonotonicTime::Now() + options_.grace + kSupervisorSlack);
}

void Attempt::TakeErrors(Host& host) {
  const std::string text = host.supervisor->ReadErrors();
  if (has_numbers_) {
    output_.Add(host.first_worker, WorkerOutput::kErrors, text);
    return;
  }
  std::string& early = host.early_errors;
  early += text;
  if (early.size() > kMaxEarlyErrors) early.erase(0, early.size() - kMaxEarlyErrors);
}

// ---- events -------------------------------------------------------------------------------------

void Attempt::TakeEvents(Host& host) {
  const absl::StatusOr<bool> more = host.supervisor->ReadEvents();
  absl::Status status = more.status();
  while (status.ok() && !host.ended) {
    launch::Event event;
    const absl::StatusOr<bool> whole = host.supervisor->NextEvent(&event);
    status = whole.status();
    if (!status.ok() || !*whole) break;
    TakeEvent(host, event);
  }
  if (host.ended || (status.ok() && *more)) return;
  if (gathering_ && options_.is_elastic) return FailToAnswer(host, status);
  LoseHost(host, status);
}

void Attempt::TakeEvent(Host& host, const launch::Event& event) {
  Worker& worker = WorkersOf(host)[event.slot()];
  const int index = worker.end.worker;
  switch (event.event_case()) {
    case launch::Event::kReady:
      host.ready = true;
      break;
    case launch::Event::kPorts:
      ports_.assign(event.ports().ports().begin(), event.ports().ports().end());
      StartWorkers();
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
      for (Worker& other : workers_) {
        if (other.started && saved_step_ > other.lost_after_step) other.starts_again = false;
      }
      break;
    case launch::Event::kEnded: {
      const launch::Ended& ended = event.ended();
      worker.end.signal = ended.signal();
      worker.end.message = ended.reason();
      TakeErrorFile(ended.error_file(), &worker.end);
      const int code = ended.signal() != 0 ? 128 + ended.signal() : ended.exit_code();
      // A worker that was not started can have an exit code that says why.
      End(host, worker, ended.reason().empty() || code != 0 ? code : kExitNotStarted);
      break;
    }
    case launch::Event::EVENT_NOT_SET:
      break;
  }
}

// Handles a host of an elastic job that cannot be reached. The host is asked again if too few other
// hosts can be reached. `why` is OK if its remote shell has ended.
void Attempt::FailToAnswer(Host& host, const absl::Status& why) {
  host.supervisor->Kill();
  Release(host);
  if (!why.ok()) absl::StrAppend(&host.early_errors, "\n", why.message());
  host.ready = false;
  ask_again_at_ = MonotonicTime::Now() + kAskAgainInterval;
}

// Handles the loss of a host's supervisor, which can no longer report how its workers end. `why` is
// OK if the supervisor has ended.
void Attempt::LoseHost(Host& host, const absl::Status& why) {
  if (!why.ok()) host.supervisor->Kill();
  const int status = Release(host);
  int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  // If the supervisor has sent invalid events, ignore its exit code.
  if (!why.ok() || code == 0) code = 1;
  std::vector<Worker*> lost;
  for (Worker& worker : WorkersOf(host)) {
    // Mark all workers as ended first. Otherwise, the first End() would order the others to end.
    if (!std::exchange(worker.ended, true) || worker.is_pausing()) lost.push_back(&worker);
    worker.again_at = MonotonicTime::InfiniteFuture();
  }
  for (Worker* const worker : lost) {
    const bool is_remote = !host.host.name.empty();
    worker->end.message = !why.ok()                       ? std::string(why.message())
                          : is_remote && !worker->started ? "the remote shell did not start it"
                                                          : "its supervisor has ended";
    End(host, *worker, code);
  }
}

// Waits until the host's supervisor has ended. Returns its status, as waitpid() does.
int Attempt::Release(Host& host) {
  const int status = host.supervisor->Reap();
  TakeErrors(host);
  host.supervisor->CloseErrors();
  if (has_numbers_) output_.Finish(host.first_worker);
  host.ended = true;
  return status;
}

bool Attempt::is_done(const Host& host) {
  return absl::c_all_of(WorkersOf(host),
                        [](const Worker& w) { return w.ended && !w.is_pausing(); });
}

void Attempt::End(Host& host, Worker& worker, int exit_code) {
  AddEnd(host, worker, exit_code);
  if (worker.is_pausing()) return;
  if (!host.ended && is_done(host)) Release(host);
  if (exit_code == 0) AwaitLastWorkers();
  if (exit_code == 0 || worker.end.asked_to_end) return;
  // After a stop, the other workers stop after the same step. Do not signal them again, because a
  // second signal would end a worker that is saving. The worker that a victim blames may be about
  // to report why it ends. A worker killed by a signal cannot report anything, but its peers can.
  const bool others_know_more = worker.end.is_victim || worker.end.signal != 0;
  const absl::Duration patience = exit_code == kExitPreempted ? options_.grace
                                  : others_know_more          ? kCauseTimeout
                                                              : absl::ZeroDuration();
  end_all_at_ = std::min(end_all_at_, MonotonicTime::Now() + patience);
  if (patience == absl::ZeroDuration()) EndAll(SIGTERM);
}

void Attempt::AddEnd(const Host& host, Worker& worker, int exit_code) {
  worker.ended = true;
  worker.end.time = absl::Now();
  worker.end.after = MonotonicTime::Now() - begin_;
  worker.end.exit_code = exit_code;
  output_.Finish(worker.end.worker);
  if (!MaybeScheduleRestart(host, worker)) ends_.push_back(worker.end);
}

bool Attempt::MaybeScheduleRestart(const Host& host, Worker& worker) {
  const WorkerEnd end = worker.end;
  // A worker that stopped is not lost: the other workers also stop. Nor is a victim, which has
  // given up on another worker, or a worker that has succeeded.
  const bool is_lost = worker.started && !end.asked_to_end && !end.is_victim &&
                       end.exit_code != 0 && end.exit_code != kExitPreempted;
  const bool others_wait = options_.rejoin_timeout > absl::ZeroDuration() && !ending_ &&
                           end_all_at_ == MonotonicTime::InfiniteFuture() && ends_.empty() &&
                           absl::c_any_of(workers_, [](const Worker& w) { return !w.ended; });
  // If a host is lost, its workers may still be running there.
  if (!is_lost || !others_wait || host.ended) return false;
  const MonotonicTime now = MonotonicTime::Now();
  const bool is_counted = !worker.starts_again && now < counted_loss_ + kSameLossTimeout;
  const std::optional<absl::Duration> pause = policy_.PauseAfter({.exit_code = end.exit_code,
                                                                  .saved_step = saved_step_,
                                                                  .host = end.host,
                                                                  .is_alone = true,
                                                                  .is_counted = is_counted});
  if (!pause.has_value()) return false;
  if (!is_counted) counted_loss_ = now;
  ++restart_.count;
  restart_.reason = EndText(end);
  PrintErrorLine(
      absl::LogSeverity::kWarning,
      absl::StrCat("mirrorflow launch: ", restart_.reason, "; restarts alone, ", policy_.Text(),
                   "; the others wait up to ", absl::FormatDuration(options_.rejoin_timeout)));
  worker.end = {};
  worker.end.worker = end.worker;
  worker.end.host = end.host;
  worker.starts_again = true;
  worker.lost_after_step = saved_step_;
  // After a longer pause, the other workers would have stopped waiting.
  worker.again_at = now + std::min(*pause, options_.rejoin_timeout / 2);
  return true;
}

// Handles a worker that was lost after it finished its work but before it exited. It restarts
// although the others end. The whole job then restarts, and ends immediately.
void Attempt::AwaitLastWorkers() {
  const auto runs = [](const Worker& w) { return !w.ended && !w.starts_again; };
  const auto is_last = [](const Worker& w) {
    return w.starts_again && (!w.ended || w.is_pausing());
  };
  if (absl::c_any_of(workers_, runs) || absl::c_none_of(workers_, is_last)) return;
  awaits_last_ = true;
  end_all_at_ = std::min(end_all_at_, MonotonicTime::Now() + kLastWorkersTimeout);
}

int Attempt::ExitCodeOfJob() {
  const auto has_succeeded = [](const WorkerEnd& end) { return end.exit_code == 0; };
  // Even if a signal has arrived in the meantime.
  if (!ends_.empty() && absl::c_all_of(ends_, has_succeeded)) return 0;
  const absl::Duration after = MonotonicTime::Now() - begin_;
  const WorkerEnd* const first = FirstFailure(ends_);
  // A scheduler that sends SIGTERM to all processes may signal the launcher last, so take its
  // signals now.
  if (first != nullptr && first->exit_code == 128 + SIGTERM) TakeSignals();
  if (first != nullptr && reason_.empty()) reason_ = EndText(*first);
  failed_host_ = HostAtFault(ends_);
  if ((exit_code_ == 0 || exit_code_ == 128 + SIGTERM) && HasStopped(ends_, exit_code_ != 0)) {
    PrintErrorReport(absl::LogSeverity::kWarning, StopReport(ends_, after));
    return kExitPreempted;
  }
  // After an interruption or a missed deadline, the workers' exit codes do not matter.
  if (exit_code_ != 0) return exit_code_;
  if (first == nullptr) return 0;
  PrintErrorReport(absl::LogSeverity::kError,
                   FailureReport(*first, ends_, first->after, output_.LastLines(first->worker)));
  return first->exit_code;
}

}  // namespace mirrorflow
