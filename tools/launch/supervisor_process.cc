// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/supervisor_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/thread.h"
#include "tools/launch/launch.h"
#include "tools/launch/wire.h"

namespace mirrorflow {
namespace {

// How long a supervisor, or the remote shell that runs it, can take to end after its workers.
constexpr absl::Duration kEndTimeout = absl::Seconds(1);

void CloseFile(int* fd) {
  if (*fd >= 0) close(std::exchange(*fd, -1));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SupervisorProcess>> SupervisorProcess::Spawn(
    const LaunchHost& host, int num_workers, absl::Span<const std::string> remote_shell) {
  MF_ASSIGN_OR_RETURN(std::string program, ThisProgram());
  std::vector<std::string> words = CommandOnHost(
      host, remote_shell, {std::move(program), "supervise", absl::StrCat(num_workers)});
  int input[2], output[2], errors[2];
  if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0 ||
      pipe2(errors, O_CLOEXEC) != 0) {
    return SystemError(errno, "pipe");
  }
  const pid_t process = fork();
  if (process < 0) return ThreadLimitError("supervisor");
  if (process == 0) {
    // Run in a separate process group: only the launcher gets the terminal's signals, and it
    // forwards them.
    setpgid(0, 0);
    // A service manager or batch system may send these signals to all processes on this host. The
    // launcher forwards them and needs the remote shell to do so. ssh keeps them ignored.
    for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_IGN);
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
  setpgid(process, process);  // Kill() may be called before the child does this itself
  close(input[0]);
  close(output[1]);
  close(errors[1]);
  std::unique_ptr<SupervisorProcess> supervisor(new SupervisorProcess(num_workers));
  supervisor->process_ = process;
  supervisor->orders_ = input[1];
  supervisor->events_ = output[0];
  supervisor->errors_ = errors[0];
  fcntl(supervisor->orders_, F_SETFL, O_NONBLOCK);
  fcntl(supervisor->errors_, F_SETFL, O_NONBLOCK);
  return supervisor;
}

SupervisorProcess::~SupervisorProcess() {
  for (int* const fd : {&orders_, &events_, &errors_}) CloseFile(fd);
}

void SupervisorProcess::Send(const launch::Order& order) {
  if (orders_ < 0) return;
  reader_.Expect(order);
  unsent_ += SerializeMessage(order);
  SendMore();
}

void SupervisorProcess::SendMore() {
  const ssize_t sent = write(orders_, unsent_.data(), unsent_.size());
  if (sent > 0) unsent_.erase(0, sent);
  // If the supervisor has ended, reading its events shows that.
  if (sent < 0 && errno != EAGAIN && errno != EINTR) unsent_.clear();
}

void SupervisorProcess::CloseOrders() {
  CloseFile(&orders_);
  unsent_.clear();
}

std::string SupervisorProcess::ReadErrors() {
  if (errors_ < 0) return "";
  char bytes[4096];
  const ssize_t count = read(errors_, bytes, sizeof(bytes));
  if (count > 0) return std::string(bytes, count);
  if (count == 0 || (errno != EINTR && errno != EAGAIN)) CloseFile(&errors_);
  return "";
}

void SupervisorProcess::CloseErrors() { CloseFile(&errors_); }

void SupervisorProcess::Kill() const {
  if (process_ > 0) kill(-process_, SIGKILL);
}

int SupervisorProcess::Reap() {
  CloseOrders();
  CloseFile(&events_);
  int status = 0;
  for (const MonotonicTime end = MonotonicTime::Now() + kEndTimeout; MonotonicTime::Now() < end;) {
    if (waitpid(process_, &status, WNOHANG) != 0) {
      process_ = -1;
      return status;
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
  Kill();
  waitpid(std::exchange(process_, -1), &status, 0);
  return status;
}

}  // namespace mirrorflow
