// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_RUN_H_
#define MIRRORFLOW_TOOLS_RUN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// Implements `mirrorflow run`: runs steps of a graph file on tensors from .npy files. Runs on one
// device or, with --replicas or --logical_gpus, under MirroredStrategy; feeds and fetches are
// global tensors either way. Any tensor can be fed, and only nodes that the fetches and targets
// need are run. Without fetches and targets, lists the feeds, variables, fetches and targets of the
// graph. `args` are the words after `run`. On error, `*code` is the exit code of the program.
absl::Status Run(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_RUN_H_
