// SPDX-License-Identifier: Apache-2.0
#include "framework/core/status.h"

#include <cstdio>
#include <cstdlib>

namespace mirrorflow {

absl::Status Annotate(const absl::Status& status, absl::string_view where) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(where, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    annotated.SetPayload(type, payload);
  });
  return annotated;
}

namespace internal {

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed (a bug in mirrorflow): %s\n", file, line, condition);
  std::abort();
}

void Misused(absl::string_view what) {
  std::fprintf(stderr, "mirrorflow: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace internal
}  // namespace mirrorflow
