// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench allreduce`: an all-reduce of two replicas of one process (C11).
#ifndef MIRRORFLOW_TOOLS_BENCH_ALL_REDUCE_H_
#define MIRRORFLOW_TOOLS_BENCH_ALL_REDUCE_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"

namespace mirrorflow {

// Measures sizes from 4 bytes to 25 MB, in turns with Gloo's algorithms on the same cores. Goals
// are against the fastest of these.
absl::Status BenchAllReduce(Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_ALL_REDUCE_H_
