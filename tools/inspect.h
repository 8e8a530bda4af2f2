// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_INSPECT_H_
#define MIRRORFLOW_TOOLS_INSPECT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// `mirrorflow inspect GRAPH`; `args` are the words after `inspect`. Prints the graph in text form
// and a summary: nodes by op, parameters, and, as compiled for --replicas and --global_batch_size,
// memory, shardings, collectives and buckets. The step is what --fetch and --target ask for, or
// everything. With --pass it prints the graph before and after that pass of the compiler instead.
// With --output it converts the file instead, which must be valid, and prints nothing; if
// --replicas is given too, it writes the step with its replicas written out (ReplicatedGraph).
// `code` is set to what the program should end with if the
// result is an error.
absl::Status Inspect(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_INSPECT_H_
