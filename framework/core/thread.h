// SPDX-License-Identifier: Apache-2.0
//
// Starts threads. The constructor of std::thread throws when a limit is reached, and its thread
// gets the stack size of `ulimit -s`, however small.
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

// Raises the default stack size of new threads to kLeastStackBytes, for the libraries that start
// threads themselves. StartThread does so, too.
void RaiseThreadStackSize();
inline constexpr size_t kLeastStackBytes = size_t{2} << 20;

// ResourceExhausted for a thread or process that could not be started: `<what>: cannot start a
// thread: …`. Names the limit that has been reached: `ulimit -v`, `ulimit -u`, or a file of the
// kernel.
absl::Status ThreadLimitError(absl::string_view what);

// Checks that `count` threads can run at the same time, for libraries that hang or abort when they
// cannot start theirs. ThreadLimitError(what) otherwise.
absl::Status CheckThreads(absl::string_view what, int count);

// Runs `work` on a new thread. ThreadLimitError(what) if it cannot be started.
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
