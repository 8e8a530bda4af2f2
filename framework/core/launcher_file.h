// SPDX-License-Identifier: Apache-2.0
//
// Files through which a worker tells its launcher something. An environment variable has the path.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_LAUNCHER_FILE_H_
#define MIRRORFLOW_FRAMEWORK_CORE_LAUNCHER_FILE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// Opens the file to replace its contents, and returns its descriptor, which the caller closes. The
// file of `mirrorflow launch` is a descriptor of the worker's supervisor, /proc/PID/fd/N, which is
// a link; any other link is FailedPrecondition, because another user may have made it.
absl::StatusOr<int> OpenLauncherFile(absl::string_view path);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_LAUNCHER_FILE_H_
