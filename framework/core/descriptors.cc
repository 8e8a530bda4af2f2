// SPDX-License-Identifier: Apache-2.0
#include "framework/core/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "framework/core/mutex.h"
#include "framework/core/system_error.h"

namespace mirrorflow {
namespace {

// Returns the smallest limit that allows `count` more open files. New descriptors take the smallest
// free numbers. Queries each number, because /proc may be absent or need a descriptor itself.
rlim_t LimitFor(int64_t count) {
  rlim_t limit = 0;
  for (int64_t free = 0; free < count; ++limit) {
    if (fcntl(static_cast<int>(limit), F_GETFD) < 0) ++free;
  }
  return limit;
}

}  // namespace

absl::Status EnsureDescriptors(absl::string_view what, int64_t needed, int64_t spare) {
  static Mutex mu;  // keeps a call from lowering the limit that another has just raised
  MutexLock lock(&mu);
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return SystemError(errno, what);
  const rlim_t least = LimitFor(needed);
  const rlim_t wanted = std::min(limit.rlim_max, least + static_cast<rlim_t>(spare));
  if (wanted > limit.rlim_cur) {
    const rlimit raised = {.rlim_cur = wanted, .rlim_max = limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  if (least <= limit.rlim_cur) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(what, ": too few file descriptors for ", needed,
                   " more open files; expected a limit (`ulimit -n`) of at least ", least, ", got ",
                   limit.rlim_cur));
}

}  // namespace mirrorflow
