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

// Returns round numbers in [low, high], about `count` of them. Requires finite low <= high.
std::vector<double> RoundTicks(double low, double high, int count);

inline constexpr size_t kMaxHtmlBytes = 64 << 10;

// Escapes a text for HTML and SVG. A byte that is not UTF-8 becomes U+FFFD, a control character a
// space. What follows the first `max_bytes` of the result, roughly, becomes an ellipsis.
std::string HtmlText(absl::string_view text, size_t max_bytes = kMaxHtmlBytes);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_LINE_CHART_H_
