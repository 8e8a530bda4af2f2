// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_REPORT_READ_RUN_H_
#define MIRRORFLOW_TOOLS_REPORT_READ_RUN_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/report/run_data.h"

namespace mirrorflow {

// Reads what it knows of the files in a directory and its subdirectories:
//   *tfevents*                       event files; tags begin with the subdirectory
//   *.jsonl *.log *.txt *.err *.out  logs (log_lines.h)
//   *.json                           traces, or logs
//   step-*                           checkpoints
// The other files are ignored, and so are symbolic links. NotFound if there is no such directory,
// FailedPrecondition if it is not one, InvalidArgument if it has no file of a run.
absl::StatusOr<RunData> ReadRun(const std::string& directory);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_READ_RUN_H_
