// SPDX-License-Identifier: Apache-2.0
//
// What a reduction that is part of the update gains over an all-reduce and an update behind it
// (C12).
#ifndef MIRRORFLOW_TOOLS_BENCH_UPDATE_H_
#define MIRRORFLOW_TOOLS_BENCH_UPDATE_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"

namespace mirrorflow {

// Gradient descent of two replicas of one process: gradients of 1 MB and 25 MB, in turns.
absl::Status BenchUpdate(Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_UPDATE_H_
