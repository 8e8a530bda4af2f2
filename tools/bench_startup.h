// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench startup` and `bench memory`: the start-up time and memory of whole training
// processes, ours and the peers'.
#ifndef MIRRORFLOW_TOOLS_BENCH_STARTUP_H_
#define MIRRORFLOW_TOOLS_BENCH_STARTUP_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"

namespace mirrorflow {

// C21: time from process start to the end of the first step, against the fastest peer.
absl::Status BenchStartup(Report* report);
// C18: peak resident memory of a training process, against the smallest peer.
absl::Status BenchMemory(Report* report);
// C13b: time from process start to the end of the first step of several workers.
absl::Status BenchWorkersStartup(Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_STARTUP_H_
