// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_DATA_H_
#define MIRRORFLOW_TOOLS_DATA_H_

#include <string>
#include <vector>

#include "tools/flags/command_line.h"

namespace mirrorflow {

// `mirrorflow data FILE|FOLDER …`: prints what a dataset of these files has, its first rows and how
// fast they are read.
absl::Status ShowData(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_DATA_H_
