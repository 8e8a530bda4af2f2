// SPDX-License-Identifier: Apache-2.0
//
// Starts threads. Unlike the constructor of std::thread, StartThread returns a status when a limit
// is reached, and gives the thread a sufficient stack even if `ulimit -s` is small.
//
//   MF_ASSIGN_OR_RETURN(thread_, StartThread("heartbeats", [this] { SendHeartbeats(); }));
#ifndef MIRRORFLOW_FRAMEWORK_CORE_THREAD_H_
#define MIRRORFLOW_FRAMEWORK_CORE_THREAD_H_

#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// Raises the default stack size of new threads to at least kMinStackBytes, for libraries that start
// threads themselves. StartThread calls it.
void RaiseThreadStackSize();
inline constexpr size_t kMinStackBytes = size_t{2} << 20;

// Returns ResourceExhausted for a thread or process that could not be started: `<what>: cannot
// start a thread: …`. Names the limit that has been reached: `ulimit -v`, `ulimit -u`, or a file
// below /proc or /sys.
absl::Status ThreadLimitError(absl::string_view what);

// Returns ThreadLimitError(what) unless `count` more threads can run at the same time. Call it
// before using a library that hangs or aborts when it cannot start its threads.
absl::Status CheckThreads(absl::string_view what, int count);

// Runs `work` on a new thread, or returns ThreadLimitError(what) if the thread cannot be started.
template <typename Work>
absl::StatusOr<std::thread> StartThread(absl::string_view what, Work&& work) {
  RaiseThreadStackSize();
  try {
    return std::thread(std::forward<Work>(work));
  } catch (const std::system_error&) {
    return ThreadLimitError(what);
  }
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_THREAD_H_
