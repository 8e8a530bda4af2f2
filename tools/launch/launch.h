// SPDX-License-Identifier: Apache-2.0
//
// The command `mirrorflow launch`.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_LAUNCH_H_
#define MIRRORFLOW_TOOLS_LAUNCH_LAUNCH_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// Runs `command` as several workers, as the flags say. `*code` is the exit code, whether or not
// there is an error.
absl::Status Launch(const std::vector<std::string>& command, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_LAUNCH_H_
