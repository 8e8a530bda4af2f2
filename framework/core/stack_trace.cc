// SPDX-License-Identifier: Apache-2.0
#include "framework/core/stack_trace.h"

#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "absl/debugging/symbolize.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mirrorflow {
namespace {

constexpr int kMaxFrames = 64;
constexpr int kMaxThreads = 256;
constexpr int kWaitMilliseconds = 200;

// Formats the frames after the first `skip`, which are this file's own.
std::string FramesText(void* const* frames, int count, int skip) {
  std::string text;
  for (int i = skip; i < count; ++i) {
    char name[512];
    // A return address points to the instruction after the call.
    const auto* const call = static_cast<const char*>(frames[i]) - 1;
    const bool known = absl::Symbolize(call, name, sizeof name);
    absl::StrAppendFormat(&text, "  %p %s\n", frames[i], known ? name : "?");
  }
  return text;
}

// The frames of the interrupted thread, written by the signal handler.
struct {
  void* frames[kMaxFrames];
  std::atomic<int> count{-1};  // -1: not yet written
} interrupted;

void OnSignal(int) { interrupted.count = backtrace(interrupted.frames, kMaxFrames); }

std::vector<pid_t> ThreadsOfThisProcess() {
  std::vector<pid_t> threads;
  DIR* const directory = opendir("/proc/self/task");
  if (directory == nullptr) return threads;
  while (const dirent* const entry = readdir(directory)) {
    const int thread = std::atoi(entry->d_name);
    if (thread > 0 && threads.size() < kMaxThreads) threads.push_back(thread);
  }
  closedir(directory);
  return threads;
}

std::string NameOf(pid_t thread) {
  std::ifstream file(absl::StrCat("/proc/self/task/", thread, "/comm"));
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

std::string CaptureStack() {
  void* frames[kMaxFrames];
  const int count = backtrace(frames, kMaxFrames);
  return std::string(reinterpret_cast<const char*>(frames), count * sizeof(frames[0]));
}

std::string StackText(absl::string_view captured) {
  void* frames[kMaxFrames];
  const size_t count = captured.size() / sizeof(frames[0]);
  if (count > kMaxFrames || captured.size() % sizeof(frames[0]) != 0) return "";
  std::memcpy(frames, captured.data(), captured.size());
  return FramesText(frames, static_cast<int>(count), 1);
}

std::string StacksOfAllThreads() {
  void* frame;
  backtrace(&frame, 1);  // the first call loads libgcc, which a signal handler must not do
  const int signal = SIGRTMAX - 1;
  struct sigaction action = {}, before = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  if (sigaction(signal, &action, &before) != 0) return "";
  std::string text;
  const auto self = static_cast<pid_t>(syscall(SYS_gettid));
  for (const pid_t thread : ThreadsOfThisProcess()) {
    absl::StrAppend(&text, "thread ", thread, " (", NameOf(thread), ")",
                    thread == getpid() ? ", the main thread" : "", ":\n");
    if (thread == self) {
      text += StackText(CaptureStack());
      continue;
    }
    interrupted.count = -1;
    if (syscall(SYS_tgkill, getpid(), thread, signal) != 0) continue;
    for (int i = 0; interrupted.count < 0 && i < kWaitMilliseconds; ++i) {
      const timespec millisecond = {.tv_sec = 0, .tv_nsec = 1'000'000};
      nanosleep(&millisecond, nullptr);
    }
    const int count = interrupted.count;
    text += count < 0 ? "  the thread did not respond\n" : FramesText(interrupted.frames, count, 2);
  }
  sigaction(signal, &before, nullptr);
  return text;
}

}  // namespace mirrorflow
