// SPDX-License-Identifier: Apache-2.0
#include "framework/core/system_error.h"

#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

// Describes the process or host limit that `error` reports. Returns an empty string if it reports
// none.
absl::string_view LimitOf(int error) {
  switch (error) {
    case EMFILE:
      return "the process has reached its limit on open files (`ulimit -n`)";
    case ENFILE:
      return "this host has reached its limit on open files (/proc/sys/fs/file-max)";
    case EFBIG:
      return HasLimit(RLIMIT_FSIZE) ? "the file has reached the size limit (`ulimit -f`)"
                                    : "the file is too large for its file system";
    default:
      return "";
  }
}

absl::Status LimitError(int error, absl::string_view what) {
  return absl::ResourceExhaustedError(absl::StrCat(what, ": ", LimitOf(error)));
}

}  // namespace

bool HasLimit(int resource) {
  rlimit limit;
  return getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 &&
         limit.rlim_cur != RLIM_INFINITY;
}

absl::Status SystemError(int error, absl::string_view what) {
  return LimitOf(error).empty() ? absl::ErrnoToStatus(error, what) : LimitError(error, what);
}

absl::Status NetworkError(int error, absl::string_view what) {
  const absl::Status status = SystemError(error, what);
  return absl::IsResourceExhausted(status) ? status : absl::UnavailableError(status.message());
}

absl::Status NameError(int error, absl::string_view what) {
  if (error == EAI_SYSTEM) return NetworkError(errno, what);
  // When file descriptors run out, glibc can report an unknown name instead.
  if (const int probe = eventfd(0, EFD_CLOEXEC); probe >= 0) {
    close(probe);
  } else if (!LimitOf(errno).empty()) {
    return LimitError(errno, what);
  }
  return absl::UnavailableError(absl::StrCat(what, ": ", gai_strerror(error)));
}

absl::Status WriteError(int error, absl::string_view what) {
  return absl::ResourceExhaustedError(SystemError(error, what).message());
}

}  // namespace mirrorflow
