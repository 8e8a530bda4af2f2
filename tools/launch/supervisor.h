// SPDX-License-Identifier: Apache-2.0
//
// The supervisor of one worker (`mirrorflow supervise`): starts it, forwards its output and its
// end, and makes sure that none of its descendants is left, whatever ends the launcher.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_SUPERVISOR_H_
#define MIRRORFLOW_TOOLS_LAUNCH_SUPERVISOR_H_

#include "absl/status/status.h"

namespace mirrorflow {

// Serves the orders on standard input (launch.proto) until the worker has ended.
absl::Status Supervise();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_SUPERVISOR_H_
