// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/worker_supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/core/end_requests.h"
#include "framework/core/file.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/thread.h"
#include "tools/flags/command_line.h"
#include "tools/launch/descendants.h"
#include "tools/launch/wire.h"

namespace mirrorflow {
namespace {

// Time limit for a worker that is asked to end because its launcher is lost. The next attempt may
// be waiting for its memory.
constexpr absl::Duration kOrphanGrace = absl::Seconds(2);
// How often to look for a newly saved step while nothing else happens.
constexpr absl::Duration kProgressInterval = absl::Seconds(1);
constexpr size_t kMaxProgressFile = 32;

// An anonymous file that the worker can open through a path for as long as this process runs.
class PrivateFile {
 public:
  explicit PrivateFile(const char* name)
      : fd_(memfd_create(name, MFD_CLOEXEC)), path_(absl::StrCat("/proc/", getpid(), "/fd/", fd_)) {
    if (fd_ < 0 || fchmod(fd_, 0600) != 0) status_ = SystemError(errno, "memfd_create");
  }
  ~PrivateFile() {
    if (fd_ >= 0) close(fd_);
  }
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;

  const absl::Status& status() const { return status_; }  // the result of creating the file
  const std::string& path() const { return path_; }
  absl::Status Write(const std::string& text) const {
    return AppendTo(fd_, "the job's secret in memory", text);
  }
  std::string Read(size_t max_bytes) const {
    std::string text(max_bytes, '\0');
    const ssize_t size = pread(fd_, text.data(), text.size(), 0);
    text.resize(size < 0 ? 0 : size);
    return text;
  }

 private:
  const int fd_;
  const std::string path_;
  absl::Status status_;
};

struct Pipe {
  int read = -1, write = -1;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return SystemError(errno, "pipe");
  return Pipe{ends[0], ends[1]};
}

class WorkerSupervisor {
 public:
  absl::Status Run(const launch::Start& start) {
    if (const absl::Status started = Start(start); !started.ok()) {
      return WriteMessage(STDOUT_FILENO, NotStarted(started));
    }
    while (!ended_) MF_RETURN_IF_ERROR(Serve());
    KillDescendants();
    ReportProgress();
    DrainOutput();
    ending_.mutable_ended()->set_error_file(error_file_.Read(kMaxErrorFile));
    return has_launcher_ ? WriteMessage(STDOUT_FILENO, ending_) : absl::OkStatus();
  }

 private:
  // Waits for an event and handles it.
  absl::Status Serve() {
    pollfd fds[] = {{.fd = has_launcher_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0},
                    {.fd = signals_, .events = POLLIN, .revents = 0},
                    {.fd = output_, .events = POLLIN, .revents = 0},
                    {.fd = errors_, .events = POLLIN, .revents = 0}};
    const absl::Duration left = kill_at_ - MonotonicTime::Now();
    const absl::Duration pause = std::clamp(left, absl::ZeroDuration(), kProgressInterval);
    const int ready =
        poll(fds, std::size(fds), static_cast<int>(absl::ToInt64Milliseconds(pause)) + 1);
    if (ready < 0 && errno != EINTR) return SystemError(errno, "poll");
    if (ready == 0) ReportProgress();
    if (MonotonicTime::Now() >= kill_at_) {
      kill_at_ = MonotonicTime::InfiniteFuture();
      SignalDescendants(SIGKILL);
    }
    if (fds[2].revents != 0) Forward(&output_, /*errors=*/false);
    if (fds[3].revents != 0) Forward(&errors_, /*errors=*/true);
    if (fds[1].revents != 0) TakeSignal();
    return fds[0].revents != 0 ? TakeOrders() : absl::OkStatus();
  }

  absl::Status TakeOrders() {
    absl::StatusOr<bool> more = reader_.ReadSome(STDIN_FILENO);
    if (!more.ok() || !*more) {
      LoseLauncher();
      return absl::OkStatus();
    }
    while (true) {
      launch::Order order;
      MF_ASSIGN_OR_RETURN(const bool whole, reader_.Next(&order));
      if (!whole) return absl::OkStatus();
      if (order.has_report()) {
        SignalDescendantsThatCatch(SIGUSR1);
      } else {
        Signal(order.signal());
      }
    }
  }

  // Forwards a signal. A signal that asks the worker to end starts a time limit.
  void Signal(int signal) {
    is_asked_to_end_ = true;
    // The launcher and this process can both receive the same request.
    if (requests_.Take(signal) == EndRequests::Kind::kRepeated) return;
    SignalDescendants(signal);
    if (signal != SIGKILL) kill_at_ = std::min(kill_at_, MonotonicTime::Now() + grace_);
  }

  void LoseLauncher() {
    has_launcher_ = false;
    // The worker may be saving: a scheduler may first ask it to end and then kill the launcher.
    if (is_asked_to_end_) return;
    grace_ = std::min(grace_, kOrphanGrace);
    Signal(SIGTERM);
  }

  void TakeSignal() {
    signalfd_siginfo info;
    while (read(signals_, &info, sizeof(info)) == sizeof(info)) {
      // If the terminal interrupts all processes at once, only the launcher's orders count.
      if (info.ssi_signo == SIGTERM) Signal(SIGTERM);
      if (info.ssi_signo == SIGHUP) LoseLauncher();
    }
    int status = 0;
    for (pid_t process; (process = waitpid(-1, &status, WNOHANG)) > 0;) {
      if (process != worker_) continue;
      ended_ = true;
      launch::Ended& ended = *ending_.mutable_ended();
      if (WIFSIGNALED(status)) ended.set_signal(WTERMSIG(status));
      if (WIFEXITED(status)) ended.set_exit_code(WEXITSTATUS(status));
    }
  }

  absl::Status Start(const launch::Start& start) {
    MF_RETURN_IF_ERROR(secret_file_.status());
    MF_RETURN_IF_ERROR(error_file_.status());
    MF_RETURN_IF_ERROR(progress_file_.status());
    BecomeSubreaper();
    MF_ASSIGN_OR_RETURN(signals_, BlockSignals({SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1}));
    grace_ = absl::Milliseconds(start.grace_ms());
    MF_RETURN_IF_ERROR(secret_file_.Write(start.secret()));
    MF_ASSIGN_OR_RETURN(const Pipe output, MakePipe());
    MF_ASSIGN_OR_RETURN(const Pipe errors, MakePipe());
    MF_ASSIGN_OR_RETURN(const Pipe failure, MakePipe());
    const pid_t self = getpid();
    worker_ = fork();
    if (worker_ < 0) return ThreadLimitError("worker");
    if (worker_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const absl::Status why = getppid() == self ? Become(start, output.write, errors.write)
                                                 : absl::AbortedError("the supervisor has ended");
      const char code = static_cast<char>(why.raw_code());
      WriteAll(failure.write, absl::StrCat(absl::string_view(&code, 1), why.message()))
          .IgnoreError();
      _exit(127);
    }
    for (const Pipe& pipe : {output, errors, failure}) close(pipe.write);
    output_ = output.read;
    errors_ = errors.read;
    char why[512];
    const ssize_t size = read(failure.read, why, sizeof(why));  // 0 if the worker is running
    close(failure.read);
    if (size > 0) {
      return absl::Status(static_cast<absl::StatusCode>(why[0]),
                          absl::string_view(why + 1, size - 1));
    }
    launch::Event event;
    event.set_started(worker_);
    if (!WriteMessage(STDOUT_FILENO, event).ok()) LoseLauncher();
    return absl::OkStatus();
  }

  // Turns this new process into the worker. Returns only on failure, with the reason.
  absl::Status Become(const launch::Start& start, int output, int errors) const {
    setsid();  // the terminal's signals come through the launcher only
    // Before anything else, restore the signals that this process or its parent ignores, so that
    // none is lost.
    for (const int signal : {SIGINT, SIGPIPE, SIGTERM, SIGXFSZ}) ::signal(signal, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0) return SystemError(errno, "cannot open /dev/null");
    if (dup2(null, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(errors, STDERR_FILENO) < 0) {
      return SystemError(errno, "cannot redirect the standard streams");
    }
    if (chdir(start.directory().c_str()) != 0) {
      return SystemError(errno, absl::StrCat("cannot change to directory ", start.directory()));
    }
    for (const std::string& variable : start.environment()) {
      const size_t equals = variable.find('=');
      setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
    }
    setenv("MIRRORFLOW_SECRET_FILE", secret_file_.path().c_str(), 1);
    setenv("MIRRORFLOW_ERROR_FILE", error_file_.path().c_str(), 1);
    setenv("MIRRORFLOW_PROGRESS_FILE", progress_file_.path().c_str(), 1);
    std::vector<char*> command;
    for (const std::string& word : start.command()) command.push_back(const_cast<char*>(&word[0]));
    command.push_back(nullptr);
    execvp(command[0], command.data());
    return SystemError(errno, absl::StrCat("cannot run '", command[0], "'"));
  }

  // Tells the launcher at once about a saved step: this host may be lost before the worker ends.
  void ReportProgress() {
    int64_t step = 0;
    if (!has_launcher_ || !absl::SimpleAtoi(progress_file_.Read(kMaxProgressFile), &step) ||
        step <= saved_step_ || step > kMaxSavedStep) {
      return;
    }
    saved_step_ = step;
    launch::Event event;
    event.set_saved(step);
    if (!WriteMessage(STDOUT_FILENO, event).ok()) LoseLauncher();
  }

  void Forward(int* fd, bool errors) {
    std::string bytes(kOutputBytes, '\0');
    const ssize_t count = read(*fd, bytes.data(), bytes.size());
    if (count <= 0) {
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
      close(*fd);
      *fd = -1;
      return;
    }
    bytes.resize(count);
    ReportProgress();  // first report steps saved before this output
    launch::Event event;
    (errors ? event.mutable_errors() : event.mutable_output())->swap(bytes);
    if (!WriteMessage(STDOUT_FILENO, event).ok()) LoseLauncher();
  }

  // Forwards the data left in the pipes. No process writes to them any more.
  void DrainOutput() {
    while (output_ >= 0) Forward(&output_, /*errors=*/false);
    while (errors_ >= 0) Forward(&errors_, /*errors=*/true);
  }

  const PrivateFile secret_file_{"secret"};
  const PrivateFile error_file_{"error"};
  const PrivateFile progress_file_{"progress"};
  MessageReader reader_;
  bool has_launcher_ = true;
  bool is_asked_to_end_ = false;  // whether the worker has been asked to end
  int64_t saved_step_ = 0;        // the last step reported to the launcher
  int signals_ = -1;
  pid_t worker_ = -1;
  int output_ = -1, errors_ = -1;  // the worker's output pipes; -1 once closed
  absl::Duration grace_ = absl::ZeroDuration();
  EndRequests requests_;
  MonotonicTime kill_at_ = MonotonicTime::InfiniteFuture();
  bool ended_ = false;
  launch::Event ending_;
};

}  // namespace

absl::Status SuperviseWorker(const launch::Start& start) { return WorkerSupervisor().Run(start); }

launch::Event NotStarted(const absl::Status& why) {
  launch::Event event;
  event.mutable_ended()->set_reason(std::string(why.message()));
  if (absl::IsResourceExhausted(why)) event.mutable_ended()->set_exit_code(kExitResources);
  return event;
}

}  // namespace mirrorflow
