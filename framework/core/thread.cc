// SPDX-License-Identifier: Apache-2.0
#include "framework/core/thread.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <latch>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/cgroup.h"
#include "framework/core/system_error.h"

namespace mirrorflow {
namespace {

size_t DefaultStackBytes() {
  size_t bytes = kMinStackBytes;
  pthread_attr_t defaults;
  if (pthread_getattr_default_np(&defaults) != 0) return bytes;
  pthread_attr_getstacksize(&defaults, &bytes);
  pthread_attr_destroy(&defaults);
  return bytes;
}

// Explains why the stack of another thread does not fit into memory. Returns an empty string if it
// fits. `ulimit -d` counts only writable mappings, `ulimit -v` all of them.
std::string MemoryLimit() {
  const size_t bytes = DefaultStackBytes();
  void* const stack =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED && HasLimit(RLIMIT_AS)) {
    return "the limit on the address space (`ulimit -v`) leaves no room for its stack";
  }
  if (stack == MAP_FAILED) return "no memory is left for its stack";
  const bool fits = mprotect(stack, bytes, PROT_READ | PROT_WRITE) == 0;
  munmap(stack, bytes);
  if (fits) return "";
  return HasLimit(RLIMIT_DATA) ? "the limit on data (`ulimit -d`) leaves no room for its stack"
                               : "no memory is left for its stack";
}

std::string ReachedLimit() {
  if (std::string memory = MemoryLimit(); !memory.empty()) return memory;
  if (const std::string cgroup = Cgroup().ReachedTaskLimit(); !cgroup.empty()) {
    return absl::StrCat("the limit on tasks in ", cgroup, " has been reached");
  }
  if (HasLimit(RLIMIT_NPROC)) {
    return "this user has reached the limit on threads and processes (`ulimit -u`)";
  }
  return "this host has reached its limit on threads (/proc/sys/kernel/threads-max)";
}

}  // namespace

void RaiseThreadStackSize() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_attr_t defaults;
    if (DefaultStackBytes() >= kMinStackBytes || pthread_getattr_default_np(&defaults) != 0) {
      return;
    }
    pthread_attr_setstacksize(&defaults, kMinStackBytes);
    pthread_setattr_default_np(&defaults);
    pthread_attr_destroy(&defaults);
  });
}

absl::Status ThreadLimitError(absl::string_view what) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, ": cannot start a thread: ", ReachedLimit()));
}

absl::Status CheckThreads(absl::string_view what, int count) {
  std::vector<std::thread> threads;
  std::latch all_started(1);
  absl::Status status;
  for (int i = 0; i < count && status.ok(); ++i) {
    absl::StatusOr<std::thread> thread = StartThread(what, [&all_started] { all_started.wait(); });
    if (thread.ok()) {
      threads.push_back(*std::move(thread));
    } else {
      status = thread.status();
    }
  }
  all_started.count_down();
  for (std::thread& thread : threads) thread.join();
  return status;
}

}  // namespace mirrorflow
