// SPDX-License-Identifier: Apache-2.0
//
// Converts the error of a failed system call to a status. Unlike absl::ErrnoToStatus, it names the
// limit that the process has reached, and returns ResourceExhausted for every limit.
//
//   const int fd = eventfd(0, EFD_CLOEXEC);
//   if (fd < 0) return SystemError(errno, "eventfd");
#ifndef MIRRORFLOW_FRAMEWORK_CORE_SYSTEM_ERROR_H_
#define MIRRORFLOW_FRAMEWORK_CORE_SYSTEM_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// Returns `<what>: <the system's reason>` with the code that Abseil maps `error` to. When file
// descriptors run out or a file would exceed the size limit, returns ResourceExhausted, and the
// reason names `ulimit -n`, `ulimit -f` or a file below /proc.
absl::Status SystemError(int error, absl::string_view what);

// Like SystemError, but returns Unavailable unless a limit is reached: on a network, another
// attempt or another address can succeed.
absl::Status NetworkError(int error, absl::string_view what);

// Converts the error of getaddrinfo(3) or getnameinfo(3), which can stem from a system call.
// Returns Unavailable unless a limit is reached. Must be called before errno changes.
absl::Status NameError(int error, absl::string_view what);

// Converts the error of a write to an open file to ResourceExhausted: the disk is full, a limit is
// reached, or the device has failed.
absl::Status WriteError(int error, absl::string_view what);

// Returns whether this process has a soft limit on a resource of getrlimit(2), such as RLIMIT_DATA.
bool HasLimit(int resource);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_SYSTEM_ERROR_H_
