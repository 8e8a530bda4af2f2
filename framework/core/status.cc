// SPDX-License-Identifier: Apache-2.0
#include "framework/core/status.h"

#include <cstdio>
#include <cstdlib>

namespace mirrorflow {

absl::Status Annotate(const absl::Status& status, absl::string_view where) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

namespace internal {

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed (a bug in mirrorflow): %s\n", file, line, condition);
  std::abort();
}

}  // namespace internal
}  // namespace mirrorflow
