// SPDX-License-Identifier: Apache-2.0
//
// Draws charts as self-contained SVG without scripts, in a light scheme and the reader's sans-serif
// font.
#ifndef MIRRORFLOW_TOOLS_REPORT_SVG_CHART_H_
#define MIRRORFLOW_TOOLS_REPORT_SVG_CHART_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace mirrorflow {

struct BarGroup {
  std::string name;            // shown below the bars; can have several lines
  std::vector<double> values;  // by series; 0 for no bar
};

// Draws groups of bars side by side, with a line at 1. Cuts off bars at `most`; the number above a
// bar shows its true value. `what` is a caption.
std::string GroupedBars(absl::string_view title, absl::string_view what,
                        const std::vector<std::string>& series, const std::vector<BarGroup>& groups,
                        double most);

struct TimelineSpan {
  int row;
  int kind;  // determines the colour
  double begin;
  double end;
  std::string name;  // shown under the mouse pointer
};

// Draws time spans in rows, the first row at the top. Overlapping spans share the height of their
// row. Times are in milliseconds from 0.
std::string Timeline(absl::string_view title, const std::vector<std::string>& rows,
                     const std::vector<std::string>& kinds, const std::vector<TimelineSpan>& spans);

// Returns about `count` round numbers in [low, high]. Requires finite low <= high.
std::vector<double> RoundTicks(double low, double high, int count);

inline constexpr size_t kMaxHtmlBytes = 64 << 10;

// Escapes text for HTML and SVG. Replaces bytes that are not valid UTF-8 with U+FFFD, and control
// characters with spaces. If the result is longer than about `max_bytes`, cuts it and appends an
// ellipsis.
std::string HtmlText(absl::string_view text, size_t max_bytes = kMaxHtmlBytes);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_SVG_CHART_H_
