// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_EXPLAIN_EXPLAIN_H_
#define MIRRORFLOW_TOOLS_EXPLAIN_EXPLAIN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// Implements `mirrorflow explain [GRAPH]`: shows where the time of a step on --replicas replicas
// goes. --fetch and --target select the step in the graph file; by default, it computes the whole
// graph. Without a file, it is the training step of --model. Feeds whose leading dimension is
// unknown have --batch_size rows per replica. Prints the plan's contents, its critical path, bytes
// and arithmetic, and the time predicted from this machine's cost table next to the time measured
// on random feeds.
//
// With --workers=N, explains the step of one of N workers that have --replicas replicas each and
// exchange data over --transport, and predicts how long they wait for one another. The step is then
// not run. On error, `*code` is the exit code of the program.
absl::Status Explain(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_EXPLAIN_EXPLAIN_H_
