// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench overhead`: what a step and a node cost when they compute nothing, how a plan's
// memory is packed, and what a step allocates.
#ifndef MIRRORFLOW_TOOLS_BENCH_OVERHEAD_H_
#define MIRRORFLOW_TOOLS_BENCH_OVERHEAD_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"

namespace mirrorflow {

absl::Status BenchDispatch(Report* report);     // C1
absl::Status BenchFixedCost(Report* report);    // C2
absl::Status BenchArena(Report* report);        // C16
absl::Status BenchSteadyState(Report* report);  // C17
// All of them.
absl::Status BenchOverhead(Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_OVERHEAD_H_
