// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_REPORT_REPORT_H_
#define MIRRORFLOW_TOOLS_REPORT_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

// Implements `mirrorflow report RUN_DIR`: writes a page about a run, of the files in its directory
// (read_run.h), to the file that --html names, by default report.html in the directory. `args` are
// the words after `report`. On error, `*code` is the exit code of the program.
absl::Status WriteReport(const std::vector<std::string>& args, ExitCode* code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_REPORT_H_
