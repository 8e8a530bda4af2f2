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

// Implements `mirrorflow report RUN_DIR`: writes a page about a run, based on the files in its
// directory (read_run.h). --html names the output file, by default report.html in that directory.
// `args` are the arguments after `report`. On error, `*code` is the program's exit code.
absl::Status WriteReport(const std::vector<std::string>& args, ExitCode* code);

// Returns a run's report as a self-contained HTML page, without scripts or external references. The
// page follows the reader's preference for a light or a dark scheme.
std::string ReportPage(absl::string_view title, const RunData& run);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_REPORT_H_
