// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_REPORT_PAGE_H_
#define MIRRORFLOW_TOOLS_REPORT_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "tools/report/run_data.h"

namespace mirrorflow {

// Returns the report of a run as an HTML page, complete in one file, without scripts and without
// references to anything else. It follows the reader's preference of a light or a dark scheme.
std::string ReportPage(absl::string_view title, const RunData& run);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_PAGE_H_
