// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/peer_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "tools/bench/machine.h"

namespace mirrorflow {
namespace {

// Limits on the output of a peer. The peer can be a program on another host, so its output is not
// trusted.
constexpr size_t kMaxLine = 64 << 10;
constexpr size_t kMaxStartOutput = 16 << 20;  // output before the peer is ready

}  // namespace

absl::StatusOr<std::unique_ptr<PeerProcess>> PeerProcess::StartWorkers(
    const std::vector<std::vector<std::string>>& commands, absl::Duration timeout) {
  MF_ASSIGN_OR_RETURN(WorkerOutput errors,
                      WorkerOutput::Create({.num_workers = static_cast<int>(commands.size())}));
  std::unique_ptr<PeerProcess> peer(
      new PeerProcess(commands[0].front(), timeout, std::move(errors)));
  const MonotonicTime begin = MonotonicTime::Now();
  for (const std::vector<std::string>& command : commands) {
    MF_RETURN_IF_ERROR(peer->Launch(command, /*talks=*/peer->children_.empty()));
  }
  Start& start = peer->start_;
  size_t output = 0;
  for (;;) {
    MF_ASSIGN_OR_RETURN(const std::string line, peer->ReadLine());
    output += line.size() + 1;
    if (output > kMaxStartOutput) {
      return absl::InvalidArgumentError(absl::StrCat(peer->name_,
                                                     ": too much output; expected at most ",
                                                     kMaxStartOutput, " bytes before 'ready'"));
    }
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    double number = 0;
    const bool is_number = absl::SimpleAtod(words.back(), &number);
    const bool has_number = words.size() == 2 && is_number;
    if (words[0] == "ready") return peer;
    if (words[0] == "version" && words.size() == 2) {
      start.version = words[1];
    } else if (words[0] == "loss" && has_number) {
      if (start.losses.empty()) {
        start.first_step_ms = absl::ToDoubleMilliseconds(MonotonicTime::Now() - begin);
      }
      start.losses.push_back(number);
    } else if (words[0] == "settings" && words.size() == 2) {
      start.settings = words[1];
    } else if (words[0] == "difference" && words.size() == 3 && is_number) {
      start.differences[words[1]] = number;
    } else if (words[0] == "logit" && has_number) {
      start.logits.push_back(number);
    } else if (words[0] == "call" && has_number) {
      start.empty_call_ms = number * 1e-6;
    }
  }
}

absl::Status PeerProcess::Launch(const std::vector<std::string>& command, bool talks) {
  // One socket serves as the peer's standard input and output. Unlike a pipe, a socket can be
  // written to without raising a signal after the peer has ended.
  int ends[2], errors[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return NetworkError(errno, "socketpair");
  }
  if (pipe2(errors, O_CLOEXEC | O_NONBLOCK) != 0) {
    const int error = errno;
    for (const int end : ends) close(end);
    return SystemError(error, "pipe");
  }
  fcntl(errors[1], F_SETFL, 0);  // makes the peer's end blocking
  Child& child = children_.emplace_back();
  child.socket = ends[0];
  child.errors = errors[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  if (talks) {
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  }
  posix_spawn_file_actions_adddup2(&actions, errors[1], STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int error = posix_spawnp(&child.process, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  close(errors[1]);
  if (error != 0) {
    child.process = -1;
    return NetworkError(error, absl::StrCat("cannot start ", name_));
  }
  return absl::OkStatus();
}

PeerProcess::~PeerProcess() {
  for (const Child& child : children_) {
    close(child.socket);
    if (child.process > 0) kill(child.process, SIGTERM);
  }
  constexpr absl::Duration kGrace = absl::Seconds(5);
  const MonotonicTime end = MonotonicTime::Now() + kGrace;
  for (size_t w = 0; w < children_.size(); ++w) {
    const Child& child = children_[w];
    const auto worker = static_cast<int>(w);
    while (child.process > 0 && waitpid(child.process, nullptr, WNOHANG) == 0) {
      if (MonotonicTime::Now() > end) kill(child.process, SIGKILL);
      if (!PrintErrors(worker)) absl::SleepFor(absl::Milliseconds(10));
    }
    // A process that the worker left behind may still be writing.
    while (PrintErrors(worker) && MonotonicTime::Now() < end) {
    }
    errors_.Finish(worker);
    if (child.errors >= 0) close(child.errors);
  }
}

bool PeerProcess::PrintErrors(int worker) {
  char bytes[4096];
  int& errors = children_[worker].errors;
  if (errors < 0) return false;
  const ssize_t count = read(errors, bytes, sizeof(bytes));
  if (count > 0) {
    errors_.Add(worker, WorkerOutput::kErrors, absl::string_view(bytes, count));
    return true;
  }
  if (count < 0 && errno == EINTR) return true;
  if (count == 0 || errno != EAGAIN) close(std::exchange(errors, -1));
  return false;
}

absl::StatusOr<std::string> PeerProcess::ReadLine() {
  const MonotonicTime deadline = MonotonicTime::Now() + timeout_;
  for (;;) {
    const size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (unread_.size() > kMaxLine) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ": a line is too long; expected at most ", kMaxLine, " bytes"));
    }
    std::vector<pollfd> ready = {{.fd = children_[0].socket, .events = POLLIN, .revents = 0}};
    for (const Child& child : children_) {
      ready.push_back({.fd = child.errors, .events = POLLIN, .revents = 0});
    }
    const int64_t left = absl::ToInt64Milliseconds(deadline - MonotonicTime::Now());
    if (left <= 0) {
      return absl::DeadlineExceededError(
          absl::StrCat(name_, ": no output for ", absl::FormatDuration(timeout_)));
    }
    if (poll(ready.data(), ready.size(), static_cast<int>(left)) < 0) {
      if (errno == EINTR) continue;
      return NetworkError(errno, name_);
    }
    for (size_t w = 0; w < children_.size(); ++w) {
      if (ready[w + 1].revents != 0) PrintErrors(static_cast<int>(w));
    }
    if (ready[0].revents == 0) continue;
    char buffer[4096];
    const ssize_t got = read(children_[0].socket, buffer, sizeof(buffer));
    if (got == 0) return Ended();
    if (got > 0) unread_.append(buffer, static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) return NetworkError(errno, name_);
  }
}

std::string PeerProcess::ProcFile(int worker, absl::string_view name) const {
  return absl::StrCat("/proc/", children_[worker].process, "/", name);
}

absl::Status PeerProcess::Ended() const {
  return absl::UnavailableError(absl::StrCat(name_, " ended; see its messages"));
}

absl::StatusOr<int64_t> PeerProcess::PeakBytes(int worker) const {
  const auto bytes = MemoryFigure(absl::StrCat(children_[worker].process), "VmHWM");
  if (!bytes.has_value()) return Ended();
  return *bytes;
}

absl::StatusOr<int> PeerProcess::NumConnections(int worker) const {
  std::set<std::string> established;  // `socket:[INODE]` of every process
  for (const char* table : {"net/tcp", "net/tcp6"}) {
    std::ifstream lines(ProcFile(worker, table));
    for (std::string line; std::getline(lines, line);) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      constexpr size_t kState = 3, kInode = 9;
      if (words.size() <= kInode || words[kState] != "01") continue;
      established.insert(absl::StrCat("socket:[", words[kInode], "]"));
    }
  }
  std::error_code error;
  int connections = 0;
  for (const auto& file : std::filesystem::directory_iterator(ProcFile(worker, "fd"), error)) {
    std::error_code closed;  // set if the file was closed in the meantime
    connections += established.count(std::filesystem::read_symlink(file, closed));
  }
  if (error) return Ended();
  return connections;
}

absl::StatusOr<std::vector<double>> PeerProcess::Ask(absl::string_view verb, double round_ms,
                                                     absl::string_view expected) {
  const std::string order = absl::StrCat(verb, " ", round_ms * 1e-3, "\n");
  if (send(children_[0].socket, order.data(), order.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(order.size())) {
    return NetworkError(errno, absl::StrCat("cannot write to ", name_));
  }
  MF_ASSIGN_OR_RETURN(const std::string line, ReadLine());
  const std::vector<absl::string_view> form = absl::StrSplit(expected, ' ');
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  std::vector<double> numbers(form.size() - 1);
  bool valid = words.size() == form.size() && words[0] == form[0];
  for (size_t i = 0; valid && i < numbers.size(); ++i) {
    valid = absl::SimpleAtod(words[i + 1], &numbers[i]) && numbers[i] > 0;
  }
  if (valid) return numbers;
  return absl::InvalidArgumentError(
      absl::StrCat(name_, ": unexpected answer; expected '", expected, "', got '", line, "'"));
}

absl::StatusOr<double> PeerProcess::Run(double round_ms) {
  MF_ASSIGN_OR_RETURN(const std::vector<double> ran, Ask("run", round_ms, "ran STEPS SECONDS"));
  return ran[1] * 1e3 / ran[0];
}

absl::StatusOr<LoadTiming> PeerProcess::Serve(double round_ms) {
  MF_ASSIGN_OR_RETURN(const std::vector<double> served,
                      Ask("serve", round_ms, "served REQUESTS SECONDS P50 P99"));
  return LoadTiming{.requests = static_cast<int64_t>(served[0]),
                    .seconds = served[1],
                    .p50_ms = served[2] * 1e-6,
                    .p99_ms = served[3] * 1e-6};
}

Side MakeSide(std::shared_ptr<PeerProcess> process) {
  return [process = std::move(process)](double round_ms) { return process->Run(round_ms); };
}

}  // namespace mirrorflow
