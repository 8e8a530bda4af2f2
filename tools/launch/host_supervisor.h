// SPDX-License-Identifier: Apache-2.0
//
// Implements `mirrorflow supervise SLOTS`, which `mirrorflow launch` starts on each host.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_HOST_SUPERVISOR_H_
#define MIRRORFLOW_TOOLS_LAUNCH_HOST_SUPERVISOR_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace mirrorflow {

// Supervises up to SLOTS workers on this host. Starts a process for each (worker_supervisor.h),
// forwards orders to them and their events to the launcher, and leaves no descendant running,
// however the launcher ends. Executes the orders on standard input (launch.proto) until all workers
// have ended. Returns InvalidArgument if `arguments` is not a slot count.
absl::Status Supervise(const std::vector<std::string>& arguments);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_HOST_SUPERVISOR_H_
