// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_EXPLAIN_EXPLAIN_H_
#define MIRRORFLOW_TOOLS_EXPLAIN_EXPLAIN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// Implements `mirrorflow explain [GRAPH]`: shows where the time of a step on --replicas replicas
// goes. The step is what --fetch and --target select in the graph file, or everything; without a
// file it is the training step of --model. Feeds whose leading dimension is unknown have
// --batch_size rows for each replica. Prints the contents of the plan, its critical path, bytes and
// arithmetic, and the time that the cost table of this machine predicts, next to the measured time
// of steps on noise. With --workers=N it explains the step of one of N workers with so many
// replicas each, which exchange data over --transport: how long they are predicted to wait for one
// another. Nothing then runs. On error, `*code` is the exit code of the program.
absl::Status Explain(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_EXPLAIN_EXPLAIN_H_
