// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/graph_flags.h"

#include <limits>

#include "absl/flags/flag.h"
#include "framework/core/cgroup.h"
#include "framework/core/status.h"
#include "tools/flags/command_line.h"

ABSL_FLAG(std::string, graph, "",
          "run, bench step: the graph file (.pb, .pbtxt, .txt); bench times its inference step "
          "instead of a training step");
ABSL_FLAG(
    int64_t, max_graph_nodes, mirrorflow::GraphLimits().max_nodes,
    "inspect, explain, run, bench: maximum number of nodes in a graph after inlining all function "
    "calls");
ABSL_FLAG(int64_t, max_memory, 0,
          "inspect, explain, run, bench: memory limit in MiB for the graph, and separately for its "
          "variables and one step; 0: 2048 for the graph, and all memory that the process can use "
          "for the rest");

namespace mirrorflow {
namespace {
constexpr int64_t kMiB = int64_t{1} << 20;
}

absl::Status CheckGraphFlags() {
  MF_RETURN_IF_ERROR(CheckFlagRange("max_graph_nodes", absl::GetFlag(FLAGS_max_graph_nodes), 1,
                                    std::numeric_limits<int32_t>::max()));
  return CheckFlagRange("max_memory", absl::GetFlag(FLAGS_max_memory), 0, int64_t{1} << 40);
}

GraphLimits GraphLimitsOfFlags() {
  GraphLimits limits{.max_nodes = absl::GetFlag(FLAGS_max_graph_nodes)};
  if (const int64_t mib = absl::GetFlag(FLAGS_max_memory); mib > 0) limits.max_bytes = mib * kMiB;
  return limits;
}

int64_t MaxBytesOfFlags() {
  if (const int64_t mib = absl::GetFlag(FLAGS_max_memory); mib > 0) return mib * kMiB;
  return static_cast<int64_t>(UsableMemory());
}

}  // namespace mirrorflow
