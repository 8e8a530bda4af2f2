// SPDX-License-Identifier: Apache-2.0
//
// The command `mirrorflow coordinator`: the coordination service of one job, in a process of its
// own.
#ifndef MIRRORFLOW_TOOLS_COORDINATOR_H_
#define MIRRORFLOW_TOOLS_COORDINATOR_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// Serves until all workers have left without a failure. After a failure, serves them anew when they
// start again. On an error, `*code` is the exit code.
absl::Status Coordinator(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_COORDINATOR_H_
