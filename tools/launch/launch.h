// SPDX-License-Identifier: Apache-2.0
//
// The commands `mirrorflow launch` and `mirrorflow supervise`, and the flags that name hosts.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_LAUNCH_H_
#define MIRRORFLOW_TOOLS_LAUNCH_LAUNCH_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/flags/command_line.h"
#include "tools/launch/placement.h"

namespace mirrorflow {

// Runs `command` as several workers, as the flags say. `*code` is the exit code, whether or not
// there is an error.
absl::Status Launch(const std::vector<std::string>& command, ExitCode* code);

// The supervisor of one worker, which `launch` runs on the worker's host: starts the worker,
// forwards its output and its end, and makes sure that none of its descendants is left, whatever
// ends the launcher. Serves the orders on standard input (launch.proto) until the worker has ended.
absl::Status Supervise();

// Returns the hosts that --hosts and --rsh name.
absl::StatusOr<WorkerHosts> HostsOfFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_LAUNCH_H_
