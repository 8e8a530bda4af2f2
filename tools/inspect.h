// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_INSPECT_H_
#define MIRRORFLOW_TOOLS_INSPECT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// Implements `mirrorflow inspect GRAPH`. Prints a summary of the graph (layers and parameters) and
// of the step as compiled for --replicas and --global_batch_size (memory and collectives). The step
// is what --fetch and --target select, or everything. `args` are the words after `inspect`.
// On error, `*code` is the exit code of the program.
//
//   --all     also prints the graph in text form, nodes by op, shardings, each collective and
//             memory regions
//   --pass    prints the graph before and after that pass of the compiler instead
//   --output  converts the file, which must be valid, and prints nothing; with --replicas it
//             writes a graph with the nodes of all replicas of the step (ReplicatedGraph)
absl::Status Inspect(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_INSPECT_H_
