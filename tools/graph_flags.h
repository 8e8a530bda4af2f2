// SPDX-License-Identifier: Apache-2.0
//
// The flags of commands that read a graph from outside: what it may take.
#ifndef MIRRORFLOW_TOOLS_GRAPH_FLAGS_H_
#define MIRRORFLOW_TOOLS_GRAPH_FLAGS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "framework/graph/graph_limits.h"

namespace mirrorflow {

// InvalidArgument that names the flag if one is out of range.
absl::Status CheckGraphFlags();

// After CheckGraphFlags: --max_graph_nodes and --max_memory.
GraphLimits GraphLimitsOfFlags();
// After CheckGraphFlags: what the variables and one step may take, in bytes.
int64_t MaxBytesOfFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_GRAPH_FLAGS_H_
