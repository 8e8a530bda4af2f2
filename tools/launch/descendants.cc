// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/descendants.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/system_error.h"

namespace mirrorflow {
namespace {

// Returns the parent of a process, or 0 if the process has ended.
pid_t ParentOf(pid_t process) {
  std::FILE* const file = std::fopen(absl::StrCat("/proc/", process, "/stat").c_str(), "re");
  if (file == nullptr) return 0;
  char line[512] = {};
  const size_t size = std::fread(line, 1, sizeof(line) - 1, file);
  std::fclose(file);
  // The process name, in parentheses, can contain any character.
  const std::string text(line, size);
  const size_t end = text.rfind(')');
  int parent = 0;
  char state = 0;
  if (end == std::string::npos) return 0;
  return std::sscanf(text.c_str() + end + 1, " %c %d", &state, &parent) == 2 ? parent : 0;
}

// Returns whether the process has a handler for the signal.
bool Catches(pid_t process, int signal) {
  std::FILE* const file = std::fopen(absl::StrCat("/proc/", process, "/status").c_str(), "re");
  if (file == nullptr) return false;
  char line[256];
  unsigned long long caught = 0;  // bit n - 1: signal n
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::sscanf(line, "SigCgt: %llx", &caught) == 1) break;
  }
  std::fclose(file);
  return (caught >> (signal - 1) & 1) != 0;
}

struct Process {
  pid_t process, parent;
};

// Returns the descendants, parents first, except the children in `kept` and their descendants.
std::vector<Process> Descendants(absl::Span<const pid_t> kept = {}) {
  std::multimap<pid_t, pid_t> children;
  if (DIR* const directory = opendir("/proc")) {
    while (const dirent* const entry = readdir(directory)) {
      int process = 0;
      if (absl::SimpleAtoi(entry->d_name, &process)) children.emplace(ParentOf(process), process);
    }
    closedir(directory);
  }
  std::vector<Process> found = {{getpid(), 0}};
  for (size_t i = 0; i < found.size(); ++i) {
    const pid_t parent = found[i].process;
    const auto [first, last] = children.equal_range(parent);
    for (auto child = first; child != last; ++child) {
      if (i == 0 && absl::c_linear_search(kept, child->second)) continue;
      found.push_back({child->second, parent});
    }
  }
  found.erase(found.begin());
  return found;
}

}  // namespace

absl::StatusOr<int> BlockSignals(absl::Span<const int> signals) {
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int signal : signals) sigaddset(&blocked, signal);
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  const int fd = signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return SystemError(errno, "signalfd");
  return fd;
}

void BecomeSubreaper() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

bool SignalChildOf(pid_t parent, pid_t process, int signal) {
  // The descriptor refers to this process even if its id is reused.
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  const bool has_pidfd = fd >= 0 || (errno != ENOSYS && errno != EPERM);
  const pid_t now = ParentOf(process);
  // A process whose parent has ended is now a child of this process.
  const bool is_same = now == parent || now == getpid();
  bool sent = false;
  if (is_same && fd >= 0) sent = syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0) == 0;
  if (is_same && !has_pidfd) sent = kill(process, signal) == 0;  // before Linux 5.3
  if (fd >= 0) close(fd);
  return sent;
}

void SignalDescendants(int signal) {
  for (const Process& p : Descendants()) SignalChildOf(p.parent, p.process, signal);
}

void SignalDescendantsThatCatch(int signal) {
  for (const Process& p : Descendants()) {
    if (Catches(p.process, signal)) SignalChildOf(p.parent, p.process, signal);
  }
}

void KillDescendants(absl::Span<const pid_t> kept, absl::Duration timeout) {
  // Repeat, because a process may have started another one just before it was killed. Processes
  // that this process has no permission to kill, or that wait for a device, are left behind.
  const MonotonicTime deadline = MonotonicTime::Now() + timeout;
  while (MonotonicTime::Now() < deadline) {
    const std::vector<Process> left = Descendants(kept);
    if (left.empty()) return;
    bool have_ended = false;
    for (const Process& p : left) {
      SignalChildOf(p.parent, p.process, SIGKILL);
      have_ended |= p.parent == getpid() && waitpid(p.process, nullptr, WNOHANG) > 0;
    }
    if (!have_ended) usleep(1000);
  }
}

}  // namespace mirrorflow
