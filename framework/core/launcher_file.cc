// SPDX-License-Identifier: Apache-2.0
#include "framework/core/launcher_file.h"

#include "absl/strings/match.h"
#include "framework/core/file.h"

namespace mirrorflow {

absl::StatusOr<int> OpenLauncherFile(absl::string_view path) {
  const bool is_descriptor = absl::StartsWith(path, "/proc/") && !absl::StrContains(path, "/../");
  using Links = InputFile::Links;
  return OpenForAppending(path, {.existing = ExistingFile::kReplace,
                                 .links = is_descriptor ? Links::kFollow : Links::kRefuse});
}

}  // namespace mirrorflow
