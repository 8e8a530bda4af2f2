// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_LAUNCH_FREE_PORTS_H_
#define MIRRORFLOW_TOOLS_LAUNCH_FREE_PORTS_H_

#include <vector>

#include "absl/status/statusor.h"

namespace mirrorflow {

// Different TCP ports of this host, which are free at the time of the call.
absl::StatusOr<std::vector<int>> FreePorts(int count);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_FREE_PORTS_H_
