// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow checkpoint`: lists the checkpoints of a directory and checks every byte of them.
#ifndef MIRRORFLOW_TOOLS_CHECKPOINT_H_
#define MIRRORFLOW_TOOLS_CHECKPOINT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// `args`: the directory. DataLoss if one of its checkpoints is damaged. On an error, `*code` is the
// exit code.
absl::Status ListAndCheckCheckpoints(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_CHECKPOINT_H_
