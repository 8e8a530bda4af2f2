// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_DEVICES_H_
#define MIRRORFLOW_TOOLS_DEVICES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// `mirrorflow devices`: prints the devices that a strategy can name, a line each, what
// MirroredStrategy takes if nothing is asked for, and why a GPU is not taken.
absl::Status Devices(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_DEVICES_H_
