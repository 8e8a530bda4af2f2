// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench compile`: what it costs to make plans of a graph.
#ifndef MIRRORFLOW_TOOLS_BENCH_COMPILE_H_
#define MIRRORFLOW_TOOLS_BENCH_COMPILE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tools/bench_report.h"

namespace mirrorflow {

// A node's share, and how it grows with the nodes (C19).
absl::Status BenchCompileNodes(Report* report);
// Training of `model` on 8 replicas against 1 and 2 (C20).
absl::Status BenchCompileReplicas(absl::string_view model, Report* report);
// Both, of the model that the flags name.
absl::Status BenchCompile(Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_COMPILE_H_
