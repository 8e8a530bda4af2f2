// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_REPORT_REPORT_H_
#define MIRRORFLOW_TOOLS_REPORT_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tools/flags/command_line.h"
#include "tools/report/run_data.h"

namespace mirrorflow {

// Implements `mirrorflow report RUN_DIR`: writes a page about a run, of the files in its directory
// (read_run.h), to the file that --html names, by default report.html in the directory. `args` are
// the words after `report`. On error, `*code` is the exit code of the program.
absl::Status WriteReport(const std::vector<std::string>& args, ExitCode* code);

// Returns the report of a run as an HTML page, complete in one file, without scripts and without
// references to anything else. It follows the reader's preference of a light or a dark scheme.
std::string ReportPage(absl::string_view title, const RunData& run);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_REPORT_H_
