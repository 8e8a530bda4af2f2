// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_BENCH_FAULT_TOLERANCE_H_
#define MIRRORFLOW_TOOLS_BENCH_FAULT_TOLERANCE_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"

namespace mirrorflow {

// Measures training of two workers with and without checkpoints, for gate C23.
absl::Status BenchCheckpoints(Report* report);
// Measures it with and without heartbeats, and what they carry, for gate C24.
absl::Status BenchHeartbeats(Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_FAULT_TOLERANCE_H_
