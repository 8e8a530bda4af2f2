// SPDX-License-Identifier: Apache-2.0
//
// Flags that name the graph that a command reads, and limit its size and memory.
#ifndef MIRRORFLOW_TOOLS_FLAGS_GRAPH_FLAGS_H_
#define MIRRORFLOW_TOOLS_FLAGS_GRAPH_FLAGS_H_

#include <cstdint>
#include <string>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "framework/graph/graph_limits.h"

ABSL_DECLARE_FLAG(std::string, graph);

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
