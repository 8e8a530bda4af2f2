// SPDX-License-Identifier: Apache-2.0
#include "tools/report/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "framework/core/utf8.h"

namespace mirrorflow {
namespace {

// These colours are distinguishable with every kind of colour vision (M. Okabe, K. Ito, "Color
// universal design", 2008).
constexpr const char* kColours[] = {"#0072b2", "#e69f00", "#d55e00", "#009e73", "#cc79a7"};

const char* Colour(size_t i) { return kColours[i % (sizeof(kColours) / sizeof(kColours[0]))]; }

// An SVG image, drawn from back to front.
class Canvas {
 public:
  Canvas(double width, double height, absl::string_view title) {
    absl::StrAppendFormat(
        &svg_,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" "
        "height=\"%g\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
        "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
        width, height, width, height, HtmlText(title));
    Text(width / 2, 22, "middle", title, "font-size=\"15\" font-weight=\"bold\"");
  }
  void Text(double x, double y, absl::string_view anchor, absl::string_view text,
            absl::string_view more = "") {
    absl::StrAppendFormat(&svg_, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" %s>%s</text>\n", x,
                          y, anchor, more, HtmlText(text));
  }
  void Line(double x1, double y1, double x2, double y2, absl::string_view colour) {
    absl::StrAppendFormat(&svg_,
                          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n",
                          x1, y1, x2, y2, colour);
  }
  void Box(double x, double y, double width, double height, absl::string_view colour,
           absl::string_view class_name, absl::string_view title) {
    absl::StrAppendFormat(&svg_,
                          "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" "
                          "height=\"%.1f\" fill=\"%s\" stroke=\"#fff\" stroke-width=\"0.5\">"
                          "<title>%s</title></rect>\n",
                          class_name, x, y, width, height, colour, HtmlText(title));
  }
  void Legend(double x, double y, const std::vector<std::string>& names) {
    for (size_t i = 0; i < names.size(); ++i) {
      Box(x, y - 10, 12, 12, Colour(i), "legend", names[i]);
      Text(x + 17, y, "start", names[i]);
      x += 35 + 7.0 * static_cast<double>(names[i].size());
    }
  }
  std::string Finish() { return absl::StrCat(svg_, "</svg>\n"); }

 private:
  std::string svg_;
};

// The vertical position of a span in its row. Overlapping spans are stacked.
struct SpanPosition {
  int level;
  int levels;  // how many levels the row has
};
std::vector<SpanPosition> StackOverlaps(const std::vector<TimelineSpan>& spans, size_t num_rows) {
  std::vector<size_t> order(spans.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return spans[i].begin; });
  std::vector<std::vector<double>> ends(num_rows);  // the end of each level's last span
  std::vector<SpanPosition> positions(spans.size());
  for (const size_t i : order) {
    std::vector<double>& levels = ends[spans[i].row];
    const auto free =
        std::ranges::find_if(levels, [&](double end) { return end <= spans[i].begin; });
    positions[i].level = static_cast<int>(free - levels.begin());
    if (free == levels.end()) {
      levels.push_back(spans[i].end);
    } else {
      *free = spans[i].end;
    }
  }
  for (size_t i = 0; i < spans.size(); ++i) {
    positions[i].levels = static_cast<int>(ends[spans[i].row].size());
  }
  return positions;
}

}  // namespace

std::vector<double> RoundTicks(double low, double high, int count) {
  const double rough = high / count - low / count;
  if (!(rough > 0) || !std::isfinite(rough)) return {low};
  const double power = std::pow(10, std::floor(std::log10(rough)));
  if (!(power > 0)) return {low};
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (rough <= factor * power) step = factor * power;
  }
  std::vector<double> ticks;
  const double first = std::ceil(low / step);
  for (int i = 0; i <= 2 * count && (first + i) * step <= high; ++i) {
    ticks.push_back((first + i) * step);
  }
  return ticks;
}

std::string HtmlText(absl::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return absl::StrCat(out, "…");
    const size_t length = Utf8CharacterLength(text);
    const absl::string_view character = text.substr(0, std::max<size_t>(length, 1));
    const unsigned char c = character[0];
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
      out += ' ';
    } else {
      absl::StrAppend(&out, character);
    }
    text.remove_prefix(character.size());
  }
  return out;
}

std::string GroupedBars(absl::string_view title, absl::string_view what,
                        const std::vector<std::string>& series, const std::vector<BarGroup>& groups,
                        double most) {
  constexpr double kLeft = 50, kTop = 70, kPlotHeight = 260, kBar = 26, kGap = 18, kBottom = 70;
  double highest = 1;
  for (const BarGroup& group : groups) {
    for (const double value : group.values) highest = std::max(highest, std::min(value, most));
  }
  const double group_width = kBar * static_cast<double>(series.size()) + kGap;
  const double plot_width =
      std::max(group_width * static_cast<double>(groups.size()), 8.0 * title.size());
  const double right = kLeft + plot_width, base = kTop + kPlotHeight;
  Canvas canvas(right + 20, base + kBottom, title);
  canvas.Legend(kLeft, 46, series);
  auto height = [&](double value) { return std::min(value, most) / highest * kPlotHeight; };
  for (const double tick : RoundTicks(0, highest, 6)) {
    canvas.Line(kLeft, base - height(tick), right, base - height(tick), "#ddd");
    canvas.Text(kLeft - 6, base - height(tick) + 4, "end", absl::StrFormat("%g", tick));
  }
  canvas.Line(kLeft, base - height(1), right, base - height(1), "#333");
  double x = kLeft + kGap / 2;
  for (const BarGroup& group : groups) {
    double bar = x;
    for (size_t i = 0; i < group.values.size(); ++i, bar += kBar) {
      const double value = group.values[i];
      if (value <= 0) continue;
      const std::string number =
          value < 9.995 ? absl::StrFormat("%.2f", value) : absl::StrFormat("%.0f", value);
      canvas.Box(bar + 1, base - height(value), kBar - 2, height(value), Colour(i), "bar",
                 absl::StrCat(series[i], ": ", number));
      canvas.Text(bar + kBar / 2, base - height(value) - 4, "middle", number, "font-size=\"10\"");
    }
    double y = base + 16;
    for (absl::string_view line : absl::StrSplit(group.name, '\n')) {
      canvas.Text(x + (group_width - kGap) / 2, y, "middle", line);
      y += 15;
    }
    x += group_width;
  }
  canvas.Text(kLeft, base + kBottom - 8, "start", what, "fill=\"#666\"");
  return canvas.Finish();
}

std::string Timeline(absl::string_view title, const std::vector<std::string>& rows,
                     const std::vector<std::string>& kinds,
                     const std::vector<TimelineSpan>& spans) {
  constexpr double kLeft = 190, kTop = 70, kRow = 34, kPlotWidth = 780;
  double last = 1e-9;
  for (const TimelineSpan& span : spans) last = std::max(last, span.end);
  const double base = kTop + kRow * static_cast<double>(rows.size());
  Canvas canvas(kLeft + kPlotWidth + 30, base + 45, title);
  canvas.Legend(kLeft, 46, kinds);
  auto x = [&](double ms) { return kLeft + ms / last * kPlotWidth; };
  for (const double tick : RoundTicks(0, last, 8)) {
    canvas.Line(x(tick), kTop, x(tick), base + 4, "#ddd");
    canvas.Text(x(tick), base + 18, "middle", absl::StrFormat("%g", tick));
  }
  canvas.Text(kLeft + kPlotWidth, base + 36, "end", "milliseconds", "fill=\"#666\"");
  for (size_t row = 0; row < rows.size(); ++row) {
    canvas.Text(kLeft - 8, kTop + kRow * (static_cast<double>(row) + 0.5) + 4, "end", rows[row]);
  }
  const std::vector<SpanPosition> positions = StackOverlaps(spans, rows.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    const TimelineSpan& span = spans[i];
    const double height = (kRow - 8) / positions[i].levels;
    // Use a minimum width to keep very short spans visible.
    canvas.Box(x(span.begin), kTop + kRow * span.row + 4 + height * positions[i].level,
               std::max(x(span.end) - x(span.begin), 0.5), height, Colour(span.kind), "span",
               absl::StrFormat("%s: %.3f ms", span.name, span.end - span.begin));
  }
  return canvas.Finish();
}

}  // namespace mirrorflow
