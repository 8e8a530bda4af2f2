// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_BENCH_WORLD_SIZES_H_
#define MIRRORFLOW_TOOLS_BENCH_WORLD_SIZES_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"

namespace mirrorflow {

// `mirrorflow bench world_sizes`: what a worker costs as the world grows, over TCP on this machine:
// time from start to the end of the first step, memory, and TCP connections.
absl::Status BenchWorldSizes(Report* report);

// Returns InvalidArgument if --max_workers is out of range.
absl::Status CheckWorldSizesFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_WORLD_SIZES_H_
