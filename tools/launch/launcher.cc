// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "framework/core/status.h"
#include "tools/flags/command_line.h"
#include "tools/launch/launch.pb.h"
#include "tools/launch/launch_report.h"
#include "tools/launch/wire.h"
#include "tools/launch/worker_output.h"

extern char** environ;

namespace mirrorflow {
namespace {

// How much longer than --grace the launcher waits for a supervisor, which may be on another host.
constexpr absl::Duration kSupervisorSlack = absl::Seconds(5);
// How long a supervisor, or the remote shell that runs it, may take to end after the worker, and
// then after SIGTERM.
constexpr absl::Duration kEndTimeout = absl::Seconds(1);

// Whether workers that ended with this code may do better when they start again.
bool CanSucceedAgain(int exit_code) {
  constexpr int kFinal[] = {0,           kExitUsage, kExitBadInput, kExitResources, kExitNumeric,
                            128 + SIGINT};
  return std::find(std::begin(kFinal), std::end(kFinal), exit_code) == std::end(kFinal);
}

// A secret of 32 random bytes for the job, as text.
absl::StatusOr<std::string> NewSecret() {
  char bytes[32];
  if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
    return absl::UnavailableError("no random numbers for the job's secret");
  }
  return absl::BytesToHexString(absl::string_view(bytes, sizeof(bytes)));
}

// The launcher's variables, except those that describe its user's session on its own host.
std::map<std::string, std::string> VariablesForOtherHosts() {
  const std::set<absl::string_view> own = {"HOME", "HOSTNAME", "LOGNAME", "MAIL", "OLDPWD",
                                           "PWD",  "SHELL",    "SHLVL",   "TERM", "TMPDIR",
                                           "USER", "_",        "DISPLAY"};
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    const size_t equals = text.find('=');
    const absl::string_view name = text.substr(0, equals);
    if (equals == absl::string_view::npos || own.contains(name)) continue;
    if (absl::StartsWith(name, "SSH_") || absl::StartsWith(name, "XDG_")) continue;
    variables.emplace(name, text.substr(equals + 1));
  }
  return variables;
}

std::string VariableOrEmpty(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The supervisor of a worker, and what is known of the worker.
struct Worker {
  pid_t supervisor = -1;  // or the remote shell that runs it
  int orders = -1;        // its standard input; writes do not wait
  std::string unsent;     // orders that it has not yet read
  int events = -1;        // its standard output
  int errors = -1;        // its standard error: messages of the remote shell
  MessageReader reader;
  bool started = false;
  bool ended = false;
  WorkerEnd end;
};

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
  if (signals < 0) return absl::ErrnoToStatus(errno, "signalfd");
  return signals;
}

// All workers from their start to their end.
class Attempt {
 public:
  // `signals`: as OpenSignals returns it. `restarts`: the number of attempts before this one.
  Attempt(const LaunchOptions& options, int restarts, int signals, WorkerOutput& output)
      : options_(options),
        restarts_(restarts),
        signals_(signals),
        output_(output),
        workers_(options.workers.size()) {}
  ~Attempt() {
    for (Worker& worker : workers_) {
      for (const int fd : {worker.orders, worker.events, worker.errors}) {
        if (fd >= 0) close(fd);
      }
    }
  }

  // Whether the launcher was asked to end.
  bool is_interrupted() const { return interrupted_; }

  // Returns the exit code.
  absl::StatusOr<int> Run() {
    MF_ASSIGN_OR_RETURN(secret_, NewSecret());
    begin_ = absl::Now();
    for (size_t w = 0; w < workers_.size(); ++w) MF_RETURN_IF_ERROR(Spawn(static_cast<int>(w)));
    launch::Order find_ports;
    find_ports.set_find_ports(NumPorts(static_cast<int>(workers_.size())));
    Send(0, find_ports);
    while (num_ended_ < static_cast<int>(workers_.size())) MF_RETURN_IF_ERROR(Serve());
    return ExitCodeOfJob();
  }

 private:
  // Starts the supervisor of a worker, in a process group of its own: the terminal's signals are
  // for the launcher, which passes them on.
  absl::Status Spawn(int index) {
    Worker& worker = workers_[index];
    const LaunchHost& host = options_.workers[index].host;
    worker.end.worker = index;
    worker.end.host = host.name;
    std::vector<std::string> words;
    if (!host.name.empty()) {
      for (const std::string& word : options_.remote_shell) {
        words.push_back(absl::StrReplaceAll(word, {{"{host}", host.name}}));
      }
    }
    char path[4096];
    const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
    if (size <= 0) return absl::ErrnoToStatus(errno, "cannot find this program's file");
    words.emplace_back(path, size);
    words.emplace_back("supervise");
    int input[2], output[2], errors[2];
    if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0 ||
        pipe2(errors, O_CLOEXEC) != 0) {
      return absl::ErrnoToStatus(errno, "pipe");
    }
    worker.supervisor = fork();
    if (worker.supervisor < 0) return absl::ErrnoToStatus(errno, "fork");
    if (worker.supervisor == 0) {
      setpgid(0, 0);
      sigset_t none;
      sigemptyset(&none);
      sigprocmask(SIG_SETMASK, &none, nullptr);
      dup2(input[0], STDIN_FILENO);
      dup2(output[1], STDOUT_FILENO);
      dup2(errors[1], STDERR_FILENO);
      std::vector<char*> command;
      for (std::string& word : words) command.push_back(word.data());
      command.push_back(nullptr);
      execvp(command[0], command.data());
      std::fprintf(stderr, "cannot run '%s': %s\n", command[0], std::strerror(errno));
      _exit(kExitNotStarted);
    }
    close(input[0]);
    close(output[1]);
    close(errors[1]);
    worker.orders = input[1];
    fcntl(worker.orders, F_SETFL, O_NONBLOCK);
    fcntl(errors[0], F_SETFL, O_NONBLOCK);
    worker.events = output[0];
    worker.errors = errors[0];
    return absl::OkStatus();
  }

  void Send(int index, const launch::Order& order) {
    if (workers_[index].ended) return;
    workers_[index].unsent += SerializeMessage(order);
    SendMore(index);
  }

  // A host that does not answer must not keep the launcher from serving the others.
  void SendMore(int index) {
    Worker& worker = workers_[index];
    const ssize_t sent = write(worker.orders, worker.unsent.data(), worker.unsent.size());
    if (sent > 0) worker.unsent.erase(0, sent);
    // If the supervisor has ended, its output says so.
    if (sent < 0 && errno != EAGAIN && errno != EINTR) worker.unsent.clear();
  }

  void StartWorkers(const launch::Ports& ports) {
    const std::vector<int> numbers(ports.ports().begin(), ports.ports().end());
    const std::string visible = VariableOrEmpty("CUDA_VISIBLE_DEVICES");
    for (size_t w = 0; w < workers_.size(); ++w) {
      const Placement& placement = options_.workers[w];
      std::map<std::string, std::string> variables;
      if (!placement.host.name.empty()) variables = VariablesForOtherHosts();
      for (auto& [name, value] : VariablesOfWorker(options_.workers, static_cast<int>(w), numbers))
        variables[name] = value;
      variables["MIRRORFLOW_RESTART_COUNT"] = absl::StrCat(restarts_);
      if (options_.one_gpu_per_process) {
        workers_[w].end.gpu = variables["CUDA_VISIBLE_DEVICES"] =
            GpuOfWorker(placement.local_rank, visible);
      }
      launch::Order order;
      launch::Start& start = *order.mutable_start();
      for (const std::string& word : options_.command) start.add_command(word);
      const std::unique_ptr<char, decltype(&std::free)> directory(getcwd(nullptr, 0), &std::free);
      start.set_directory(directory == nullptr ? "/" : directory.get());
      start.mutable_environment()->insert(variables.begin(), variables.end());
      start.set_secret(secret_);
      start.set_grace_ms(absl::ToInt64Milliseconds(options_.grace));
      Send(static_cast<int>(w), order);
    }
  }

  // Waits for something to do, and does it.
  absl::Status Serve() {
    std::vector<pollfd> fds = {{.fd = signals_, .events = POLLIN, .revents = 0}};
    for (const Worker& worker : workers_) {
      fds.push_back({.fd = worker.events, .events = POLLIN, .revents = 0});
      fds.push_back({.fd = worker.errors, .events = POLLIN, .revents = 0});
      const bool sends = !worker.ended && !worker.unsent.empty();
      fds.push_back({.fd = sends ? worker.orders : -1, .events = POLLOUT, .revents = 0});
    }
    const absl::Time next = std::min(num_started_ >= static_cast<int>(workers_.size())
                                         ? absl::InfiniteFuture()
                                         : begin_ + options_.start_timeout,
                                     kill_at_);
    const int timeout = next == absl::InfiniteFuture()
                            ? -1
                            : static_cast<int>(std::clamp<int64_t>(
                                  absl::ToInt64Milliseconds(next - absl::Now()) + 1, 0, 1'000'000));
    if (poll(fds.data(), fds.size(), timeout) < 0 && errno != EINTR) {
      return absl::ErrnoToStatus(errno, "poll");
    }
    if (absl::Now() >= next) PassDeadline();
    if (fds[0].revents != 0) TakeSignals();
    for (size_t w = 0; w < workers_.size(); ++w) {
      const auto index = static_cast<int>(w);
      if (fds[3 + 3 * w].revents != 0) SendMore(index);
      if (fds[2 + 3 * w].revents != 0) TakeErrors(index);
      if (fds[1 + 3 * w].revents != 0) TakeEvents(index);
    }
    return absl::OkStatus();
  }

  void PassDeadline() {
    if (absl::Now() >= kill_at_) {
      KillSupervisors();
      return;
    }
    std::vector<int> missing;
    for (size_t w = 0; w < workers_.size(); ++w) {
      if (!workers_[w].started && !workers_[w].ended) missing.push_back(static_cast<int>(w));
    }
    std::fprintf(stderr, "mirrorflow launch: %d of %d workers started within %s; missing: %s\n",
                 num_started_, static_cast<int>(workers_.size()),
                 absl::FormatDuration(options_.start_timeout).c_str(),
                 absl::StrJoin(missing, ", ").c_str());
    exit_code_ = kExitStartTimeout;
    num_started_ = static_cast<int>(workers_.size());  // wait for none of them any more
    EndAll(SIGTERM);
    for (const int w : missing) kill(-workers_[w].supervisor, SIGKILL);
  }

  // Ends the supervisors themselves, whose workers then end by losing their launcher; first by
  // SIGTERM, then by SIGKILL.
  void KillSupervisors() {
    const bool again = std::exchange(killing_, true);
    kill_at_ = again ? absl::InfiniteFuture() : absl::Now() + kEndTimeout;
    for (Worker& worker : workers_) {
      if (worker.ended) continue;
      if (worker.orders >= 0) close(std::exchange(worker.orders, -1));
      worker.unsent.clear();
      kill(-worker.supervisor, again ? SIGKILL : SIGTERM);
    }
  }

  void TakeSignals() {
    signalfd_siginfo info;
    while (read(signals_, &info, sizeof(info)) == sizeof(info)) {
      const auto signal = static_cast<int>(info.ssi_signo);
      const bool again = interrupted_;
      interrupted_ = true;
      exit_code_ = 128 + signal;
      EndAll(again ? SIGKILL : signal);
      if (again) kill_at_ = std::min(kill_at_, absl::Now() + kEndTimeout);
    }
  }

  // Asks all workers that still run to end.
  void EndAll(int signal) {
    launch::Order order;
    order.set_signal(signal);
    for (size_t w = 0; w < workers_.size(); ++w) {
      if (workers_[w].ended) continue;
      workers_[w].end.asked_to_end = true;
      Send(static_cast<int>(w), order);
    }
    kill_at_ = std::min(kill_at_, absl::Now() + options_.grace + kSupervisorSlack);
  }

  void TakeErrors(int index) {
    Worker& worker = workers_[index];
    char bytes[4096];
    const ssize_t count = read(worker.errors, bytes, sizeof(bytes));
    if (count > 0) {
      output_.Add(index, WorkerOutput::kErrors, absl::string_view(bytes, count));
    } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
      close(std::exchange(worker.errors, -1));
    }
  }

  void TakeEvents(int index) {
    Worker& worker = workers_[index];
    const absl::StatusOr<bool> more = worker.reader.ReadSome(worker.events);
    absl::Status status = more.status();
    while (status.ok() && !worker.ended) {
      launch::Event event;
      const absl::StatusOr<bool> whole = worker.reader.Next(&event);
      status = whole.status();
      if (!status.ok() || !*whole) break;
      TakeEvent(index, event);
    }
    if (worker.ended || (status.ok() && *more)) return;
    // Without an event that says how the worker ended.
    const bool is_remote = !options_.workers[index].host.name.empty();
    worker.end.message = !status.ok()                   ? std::string(status.message())
                         : is_remote && !worker.started ? "the remote shell has not started it"
                                                        : "its supervisor has ended";
    End(index, /*exit_code=*/-1);
  }

  void TakeEvent(int index, const launch::Event& event) {
    Worker& worker = workers_[index];
    switch (event.event_case()) {
      case launch::Event::kPorts:
        StartWorkers(event.ports());
        break;
      case launch::Event::kStarted:
        worker.started = true;
        worker.end.process = event.started();
        ++num_started_;
        break;
      case launch::Event::kOutput:
        output_.Add(index, WorkerOutput::kOutput, event.output());
        break;
      case launch::Event::kErrors:
        output_.Add(index, WorkerOutput::kErrors, event.errors());
        break;
      case launch::Event::kEnded: {
        const launch::Ended& ended = event.ended();
        worker.end.signal = ended.signal();
        worker.end.message = ended.not_started();
        TakeErrorFile(ended.error_file(), &worker.end);
        const int code = ended.signal() != 0 ? 128 + ended.signal() : ended.exit_code();
        End(index, ended.not_started().empty() ? code : kExitNotStarted);
        break;
      }
      case launch::Event::EVENT_NOT_SET:
        break;
    }
  }

  // `exit_code`: of the worker; -1: that of its supervisor or remote shell.
  void End(int index, int exit_code) {
    Worker& worker = workers_[index];
    worker.ended = true;
    ++num_ended_;
    if (!worker.started) ++num_started_;  // not waited for any more
    worker.end.time = absl::Now();
    if (worker.orders >= 0) close(std::exchange(worker.orders, -1));
    close(std::exchange(worker.events, -1));
    if (exit_code < 0) kill(-worker.supervisor, SIGTERM);
    const int status = WaitForSupervisor(worker);
    if (exit_code < 0) {
      exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (exit_code == 0) exit_code = 1;
    }
    // Something that the remote shell has left behind may keep its standard error open.
    if (worker.errors >= 0) TakeErrors(index);
    if (worker.errors >= 0) close(std::exchange(worker.errors, -1));
    output_.Finish(index);
    worker.end.exit_code = exit_code;
    ends_.push_back(worker.end);
    if (exit_code != 0 && !worker.end.asked_to_end) EndAll(SIGTERM);
  }

  // Returns the status of the supervisor, or of the remote shell that runs it, which is ended if it
  // does not end by itself.
  static int WaitForSupervisor(const Worker& worker) {
    int status = 0;
    for (const int signal : {SIGTERM, SIGKILL}) {
      for (const absl::Time end = absl::Now() + kEndTimeout; absl::Now() < end;) {
        if (waitpid(worker.supervisor, &status, WNOHANG) != 0) return status;
        absl::SleepFor(absl::Milliseconds(1));
      }
      kill(-worker.supervisor, signal);
    }
    waitpid(worker.supervisor, &status, 0);
    return status;
  }

  int ExitCodeOfJob() const {
    const WorkerEnd* const first = FirstFailure(ends_);
    // Workers that have saved what they need say so, if they were asked to by SIGTERM.
    const auto is_saved = [](const WorkerEnd& end) {
      return end.exit_code == 0 || end.exit_code == kExitPreempted;
    };
    if (exit_code_ == 128 + SIGTERM && first != nullptr &&
        std::all_of(ends_.begin(), ends_.end(), is_saved)) {
      return kExitPreempted;
    }
    // After an interruption or a missed deadline, how the workers ended is only a consequence.
    if (exit_code_ != 0) return exit_code_;
    if (first == nullptr) return 0;
    const std::string report =
        FailureReport(*first, ends_, first->time - begin_, output_.LastLines(first->worker));
    std::fputs(report.c_str(), stderr);
    return first->exit_code;
  }

  const LaunchOptions& options_;
  const int restarts_;
  const int signals_;
  WorkerOutput& output_;
  std::vector<Worker> workers_;
  std::string secret_;
  absl::Time begin_;
  absl::Time kill_at_ = absl::InfiniteFuture();
  int num_started_ = 0;
  int num_ended_ = 0;
  bool interrupted_ = false;
  bool killing_ = false;         // the supervisors
  int exit_code_ = 0;            // of the job, if the workers do not decide it
  std::vector<WorkerEnd> ends_;  // in order of time
};

}  // namespace

absl::StatusOr<int> RunJob(const LaunchOptions& options) {
  MF_ASSIGN_OR_RETURN(WorkerOutput output,
                      WorkerOutput::Create({.num_workers = static_cast<int>(options.workers.size()),
                                            .show = options.show,
                                            .log_dir = options.log_dir}));
  MF_ASSIGN_OR_RETURN(const int signals, OpenSignals());
  const absl::Cleanup close_signals = [signals] { close(signals); };
  output.StopWaitingOn(signals);
  for (int restarts = 0;; ++restarts) {
    Attempt attempt(options, restarts, signals, output);
    MF_ASSIGN_OR_RETURN(const int code, attempt.Run());
    const bool restart = restarts < options.max_restarts && CanSucceedAgain(code);
    if (attempt.is_interrupted() || !restart) return code;
    std::fprintf(stderr, "mirrorflow launch: restart %d of at most %d\n", restarts + 1,
                 options.max_restarts);
    output.ForgetLastLines();
  }
}

}  // namespace mirrorflow
