// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench compile`: the time to compile a graph to plans.
#ifndef MIRRORFLOW_TOOLS_BENCH_COMPILE_H_
#define MIRRORFLOW_TOOLS_BENCH_COMPILE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tools/bench_report.h"

namespace mirrorflow {

// Measures the time per node, and its growth with the number of nodes (C19).
absl::Status BenchCompileNodes(Report* report);
// Compares the time to compile the training of `model` for 8 replicas with that for 1 and 2 (C20).
absl::Status BenchCompileReplicas(absl::string_view model, Report* report);
// Runs both, the second for --model.
absl::Status BenchCompile(Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_COMPILE_H_
