// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_REPORT_LOG_LINES_H_
#define MIRRORFLOW_TOOLS_REPORT_LOG_LINES_H_

#include "absl/strings/string_view.h"
#include "tools/report/run_data.h"

namespace mirrorflow {

// Adds the lines of a text file that it knows, and returns their number. Other lines are ignored:
// a log may have any. Known are
//   {"time":"…","worker":0,"epoch":1,"step":5,…}   of Progress with LogFormat::kJson; the launcher
//                                                   may have put the number of the worker before
//   {"time":"…","event":"saved",…}                  of EventLog
//   STEP LOSS                                       of --loss_log, from the first line on
// Values of worker 0 are those of all workers, so lines of others give only their warnings.
int ReadLogLines(absl::string_view text, RunData* run);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_LOG_LINES_H_
