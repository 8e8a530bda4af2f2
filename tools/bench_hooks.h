// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench hooks`: compares the communication hooks: the time of a training step of
// several workers, the bytes that each sends, and how far the loss falls in the same steps.
#ifndef MIRRORFLOW_TOOLS_BENCH_HOOKS_H_
#define MIRRORFLOW_TOOLS_BENCH_HOOKS_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"

namespace mirrorflow {

// Implements the command, for the case that the flags name, with each hook in turn.
absl::Status BenchHooks(Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_HOOKS_H_
