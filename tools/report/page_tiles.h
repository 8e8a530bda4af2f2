// SPDX-License-Identifier: Apache-2.0
//
// The head of the report: a line about the run, and its most important figures.
#ifndef MIRRORFLOW_TOOLS_REPORT_PAGE_TILES_H_
#define MIRRORFLOW_TOOLS_REPORT_PAGE_TILES_H_

#include <string>
#include <vector>

#include "tools/report/charts.h"
#include "tools/report/run_data.h"

namespace mirrorflow {

std::string Subtitle(const RunData& run);
std::string Tiles(const RunData& run, const std::vector<Chart>& charts);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_PAGE_TILES_H_
