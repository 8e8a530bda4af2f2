// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_REPORT_LINE_CHART_H_
#define MIRRORFLOW_TOOLS_REPORT_LINE_CHART_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/report/run_data.h"

namespace mirrorflow {

struct LineSeries {
  std::string name;
  const std::vector<Point>* points;
};

// Draws values over steps as SVG that is part of an HTML page. The page sets the colours: the
// classes `axis`, `grid`, `line`, `raw`, `dot` and `hit`, and the variables --c0 … --c5, one for
// each series in turn. A line has gaps where values are not finite. A series of more than 200
// points is smoothed by an exponential moving average, with the values themselves behind it. If the
// axis of the values may be logarithmic, it is over a range of two decades and more.
std::string LineChart(absl::string_view title, const std::vector<LineSeries>& series,
                      bool may_be_logarithmic = false);

// The number of colours.
inline constexpr size_t kChartColours = 6;

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_LINE_CHART_H_
