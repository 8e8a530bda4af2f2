// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench gates`: the goals that are ratios to other frameworks, as one table.
#ifndef MIRRORFLOW_TOOLS_BENCH_GATES_H_
#define MIRRORFLOW_TOOLS_BENCH_GATES_H_

#include "tools/bench_report.h"

namespace mirrorflow {

// Measures every case of the table in bench_gates.cc, once with all of its peers, and prints a
// Markdown table: gate, case, our time and the peer's, their ratio with its interval, verdict.
absl::Status BenchGates(Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_GATES_H_
