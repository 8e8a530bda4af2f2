// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench startup` and `bench memory`: what whole processes that train cost, ours and the
// peers'.
#ifndef MIRRORFLOW_TOOLS_BENCH_STARTUP_H_
#define MIRRORFLOW_TOOLS_BENCH_STARTUP_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"

namespace mirrorflow {

// C21: from the start of a process to the end of its first step, against the fastest peer.
absl::Status BenchStartup(Report* report);
// C18: the most memory that a process that trains has resident, against the smallest peer.
absl::Status BenchMemory(Report* report);

// `mirrorflow bench peer`: this process trains the case that the flags name, and says so as peers
// do (tests/benchmark/peers/peer.py). It is what the above start.
absl::Status TrainAsPeer(Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_STARTUP_H_
