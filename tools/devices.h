// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_DEVICES_H_
#define MIRRORFLOW_TOOLS_DEVICES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// Implements `mirrorflow devices`: prints one line for each device that a strategy can name, with
// the reason if a GPU cannot be used, and the devices that MirroredStrategy takes by default. On
// error, `*code` is the exit code of the program.
absl::Status Devices(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_DEVICES_H_
