// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench gates`: the goals of speed as one Markdown table, below the machine, the
// versions and the settings. What cannot be measured, such as a peer that is not installed, has a
// row that says why and ends nothing else.
#ifndef MIRRORFLOW_TOOLS_BENCH_GATES_H_
#define MIRRORFLOW_TOOLS_BENCH_GATES_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"

namespace mirrorflow {

// A table of the gates that --only names.
Report GatesReport();
absl::Status BenchGates(Report* report);
// What its flags can get wrong.
absl::Status CheckGatesFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_GATES_H_
