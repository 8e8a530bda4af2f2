// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench overhead`: the cost of a step and of a node that compute almost nothing, the
// packing of a plan's memory, and the allocations of a step.
#ifndef MIRRORFLOW_TOOLS_BENCH_OVERHEAD_H_
#define MIRRORFLOW_TOOLS_BENCH_OVERHEAD_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"

namespace mirrorflow {

absl::Status BenchDispatch(Report* report);     // C1
absl::Status BenchFixedCost(Report* report);    // C2
absl::Status BenchArena(Report* report);        // C16
absl::Status BenchSteadyState(Report* report);  // C17
// Runs all of them.
absl::Status BenchOverhead(Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_OVERHEAD_H_
