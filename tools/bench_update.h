// SPDX-License-Identifier: Apache-2.0
//
// Measures how much faster a reduction inside the update is than an all-reduce followed by an
// update (C12).
#ifndef MIRRORFLOW_TOOLS_BENCH_UPDATE_H_
#define MIRRORFLOW_TOOLS_BENCH_UPDATE_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"

namespace mirrorflow {

// Runs gradient descent on two replicas of one process, with gradients of 1 MB and 25 MB, in turns.
absl::Status BenchUpdate(Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_UPDATE_H_
