// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_EXPLAIN_H_
#define MIRRORFLOW_TOOLS_EXPLAIN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// `mirrorflow explain [GRAPH]`: where the time of a step goes, under --replicas, with --batch_size
// rows for each in feeds whose leading dimension is open. The step is what --fetch and --target ask
// of the graph file, or everything; without a file it is the training step of the --model. Prints
// what the plan holds, its critical path, bytes and arithmetic, and the time that the cost table of
// this machine predicts, beside that of steps on noise. `code` is set to what the program should
// end with if the result is an error.
absl::Status Explain(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_EXPLAIN_H_
