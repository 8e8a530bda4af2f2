// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_RUN_H_
#define MIRRORFLOW_TOOLS_RUN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// `mirrorflow run`: runs steps of a graph file on tensors from .npy files, on one device or, with
// --replicas, under MirroredStrategy, where feeds and fetches stay global. Any tensor can be fed,
// and only what the fetches and targets need is run. Without both it prints what the graph offers.
// `args` are the words after `run`; `code` is set to what the program should end with if the result
// is an error.
absl::Status Run(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_RUN_H_
