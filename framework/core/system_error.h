// SPDX-License-Identifier: Apache-2.0
//
// The status of a failed system call. Unlike absl::ErrnoToStatus, it names the limit that the
// process has reached, and gives every limit the code ResourceExhausted.
//
//   const int fd = eventfd(0, EFD_CLOEXEC);
//   if (fd < 0) return SystemError(errno, "eventfd");
#ifndef MIRRORFLOW_FRAMEWORK_CORE_SYSTEM_ERROR_H_
#define MIRRORFLOW_FRAMEWORK_CORE_SYSTEM_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// Returns `<what>: <the system's reason>` with the code that Abseil gives the number. When file
// descriptors run out or a file would exceed the limit on file sizes, returns ResourceExhausted,
// and the reason names `ulimit -n`, `ulimit -f` or a file of the kernel.
absl::Status SystemError(int error, absl::string_view what);

// Returns SystemError with the code Unavailable for what is not a limit: for the network, where
// another attempt or another address may succeed.
absl::Status NetworkError(int error, absl::string_view what);

// Returns the error of getaddrinfo(3) or getnameinfo(3), which may have failed by a system call;
// Unavailable unless a limit is reached. Call it before errno changes.
absl::Status NameError(int error, absl::string_view what);

// Returns the error of a write to a file that was open for it, as ResourceExhausted: the disk is
// full, a limit is reached, or the device has failed.
absl::Status WriteError(int error, absl::string_view what);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_SYSTEM_ERROR_H_
