// SPDX-License-Identifier: Apache-2.0
#include "framework/core/status.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/log.h"

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

void CheckFailed(const char* file, int line, const char* condition) noexcept {
  Log(absl::LogSeverity::kFatal,
      absl::StrCat(file, ":", line, ": check failed (a bug in mirrorflow): ", condition));
  std::abort();
}

void Misused(absl::string_view what) noexcept {
  Log(absl::LogSeverity::kFatal, what);
  std::abort();
}

}  // namespace internal

absl::Status ErrorList::ToStatus() const {
  if (empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(absl::StrJoin(messages_, "\n"),
                   full() ? absl::StrCat("\nstopped after ", kMaxErrors, " errors") : ""));
}

}  // namespace mirrorflow
