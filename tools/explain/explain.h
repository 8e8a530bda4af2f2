// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_EXPLAIN_EXPLAIN_H_
#define MIRRORFLOW_TOOLS_EXPLAIN_EXPLAIN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// Implements `mirrorflow explain [GRAPH]`: shows where a step on --replicas replicas spends its
// time. --fetch and --target select the step in the graph file; by default, the step computes the
// whole graph. Without a file, explains the training step of --model. Feeds with an unknown leading
// dimension have --batch_size rows per replica. Prints the plan's contents, its critical path,
// bytes and arithmetic, and the time predicted from this machine's cost table, next to the time
// measured. For the measurement, the variables have the values in --variables, and feeds that
// --feed does not name are random. With --memory, also prints the step's memory by class.
//
// With --workers=N, explains the step of one of N workers, which have --replicas replicas each and
// exchange data over --transport, and predicts how long the workers wait for one another; the step
// is not run. On error, `*code` is the program's exit code.
absl::Status Explain(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_EXPLAIN_EXPLAIN_H_
