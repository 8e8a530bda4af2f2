// SPDX-License-Identifier: Apache-2.0
//
// Flags that limit the size and memory of the graphs that commands read.
#ifndef MIRRORFLOW_TOOLS_FLAGS_GRAPH_FLAGS_H_
#define MIRRORFLOW_TOOLS_FLAGS_GRAPH_FLAGS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "framework/graph/graph_limits.h"

namespace mirrorflow {

// Returns InvalidArgument, naming the flag, if a flag is out of range.
absl::Status CheckGraphFlags();

// Returns the limits that --max_graph_nodes and --max_memory set. Requires that CheckGraphFlags
// succeeded.
GraphLimits GraphLimitsOfFlags();
// Returns the limit in bytes on the memory for the variables and one step. Requires that
// CheckGraphFlags succeeded.
int64_t MaxBytesOfFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FLAGS_GRAPH_FLAGS_H_
