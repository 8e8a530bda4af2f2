// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench gates`: all performance goals as one Markdown table, below the machine, the
// versions and the settings. A goal that cannot be measured, for example because a peer is not
// installed, has a row with the reason and does not end the run.
#ifndef MIRRORFLOW_TOOLS_BENCH_GATES_H_
#define MIRRORFLOW_TOOLS_BENCH_GATES_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"

namespace mirrorflow {

// Returns a table of the gates that --only names, or of all.
Report GatesReport();
absl::Status BenchGates(Report* report);
// Checks the flags of BenchGates.
absl::Status CheckGatesFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_GATES_H_
