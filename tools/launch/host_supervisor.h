// SPDX-License-Identifier: Apache-2.0
//
// Implements `mirrorflow supervise SLOTS`. `mirrorflow launch` starts one on each host.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_HOST_SUPERVISOR_H_
#define MIRRORFLOW_TOOLS_LAUNCH_HOST_SUPERVISOR_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace mirrorflow {

// Supervises the workers of this host, at most SLOTS: starts a process for each
// (worker_supervisor.h), passes orders on to them and their events on to the launcher, and leaves
// no descendant running, however the launcher ends. Executes the orders on standard input
// (launch.proto) until all workers have ended. InvalidArgument if `arguments` is not a number of
// slots.
absl::Status Supervise(const std::vector<std::string>& arguments);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_HOST_SUPERVISOR_H_
