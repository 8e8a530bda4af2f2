// SPDX-License-Identifier: Apache-2.0
#include "tools/report/charts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "tools/report/svg_chart.h"

namespace mirrorflow {
namespace {

// ---- the arrangement ----------------------------------------------------------------------------

// Returns whether the word names the data that a series is measured on.
bool IsSplit(absl::string_view word) {
  constexpr absl::string_view kSplits[] = {"train", "training", "valid", "validation",
                                           "val",   "test",     "eval"};
  return absl::c_linear_search(kSplits, word);
}

struct ChartAndLine {
  std::string chart, line;
};

ChartAndLine SplitName(absl::string_view name) {
  const size_t first = name.find('/'), last = name.rfind('/');
  if (first != absl::string_view::npos && IsSplit(name.substr(0, first))) {
    return {std::string(name.substr(first + 1)), std::string(name.substr(0, first))};
  }
  if (last != absl::string_view::npos && IsSplit(name.substr(last + 1))) {
    return {std::string(name.substr(0, last)), std::string(name.substr(last + 1))};
  }
  if (absl::string_view rest = name; absl::ConsumePrefix(&rest, "val_")) {
    return {std::string(rest), "validation"};
  }
  return {std::string(name), ""};
}

Chart::Section SectionOf(absl::string_view chart) {
  const std::string name = absl::AsciiStrToLower(chart);
  auto has = [&](std::initializer_list<const char*> words) {
    return absl::c_any_of(words, [&](auto* word) { return absl::StrContains(name, word); });
  };
  if (has({"learning_rate", "learning rate"}) || name == "lr" || absl::EndsWith(name, "/lr") ||
      absl::StartsWith(name, "lr/") || absl::StartsWith(name, "lr-")) {
    return Chart::kLearningRate;
  }
  if (has({"per_s", "per_sec", "ms_per_step", "throughput", "step_time", "step_ms"})) {
    return Chart::kThroughput;
  }
  if (has({"memory", "bytes"})) return Chart::kMemory;
  if (has({"loss", "error", "perplexity"})) return Chart::kLosses;
  return Chart::kMetrics;
}

// ---- the drawing --------------------------------------------------------------------------------

constexpr double kWidth = 560, kHeight = 240;
constexpr double kLeft = 58, kRight = kWidth - 12, kTop = 10, kBottom = kHeight - 26;
constexpr size_t kColumns = 400;     // long series are reduced to the extremes of this many columns
constexpr size_t kSmoothFrom = 200;  // series with more points are smoothed
constexpr double kSmoothing = 0.9;
constexpr size_t kDots = 12;         // points are drawn as dots if a series has at most this many
constexpr size_t kHits = 60;         // how many points of a series show their value
constexpr size_t kMaxHitName = 200;  // in bytes, because each of these points repeats the name
constexpr double kLogarithmicFrom = 100;  // the smallest ratio of largest to smallest value

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void Add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// Formats a tick label that fits beside the axis.
std::string TickText(double tick) {
  for (const auto& [unit, name] : {std::pair(1e9, "G"), std::pair(1e6, "M"), std::pair(1e3, "k")}) {
    const bool fits = std::abs(tick) >= unit && std::abs(tick) < 1e5 * unit;
    if (fits && std::abs(tick) >= 1e5) return absl::StrFormat("%.4g%s", tick / unit, name);
  }
  return absl::StrFormat("%.4g", tick);
}

class Axes {
 public:
  Axes(const std::vector<LineSeries>& series, bool may_be_logarithmic) {
    for (const LineSeries& line : series) {
      for (const Point& point : *line.points) {
        x_.Add(static_cast<double>(point.step));
        if (std::isfinite(point.value)) y_.Add(point.value);
      }
    }
    if (x_.low > x_.high) x_ = {0, 1};
    if (y_.low > y_.high) y_ = {0, 1};
    is_logarithmic_ = may_be_logarithmic && y_.low > 0 && y_.high / y_.low >= kLogarithmicFrom;
    Widen(&x_, 0);
    Widen(&y_, is_logarithmic_ ? 0 : 0.05);
  }

  double X(int64_t step) const {
    return kLeft + (static_cast<double>(step) - x_.low) / (x_.high - x_.low) * (kRight - kLeft);
  }
  double Y(double value) const {
    const double share = is_logarithmic_ ? std::log(value / y_.low) / std::log(y_.high / y_.low)
                                         : (value / 2 - y_.low / 2) / (y_.high / 2 - y_.low / 2);
    return kBottom - share * (kBottom - kTop);
  }

  std::string Draw() const {
    std::string svg;
    for (const double tick : YTicks()) {
      absl::StrAppendFormat(&svg,
                            "<line class=\"grid\" x1=\"%.0f\" y1=\"%.1f\" x2=\"%.0f\" "
                            "y2=\"%.1f\"/><text class=\"axis\" x=\"%.0f\" y=\"%.1f\" "
                            "text-anchor=\"end\">%s</text>\n",
                            kLeft, Y(tick), kRight, Y(tick), kLeft - 6, Y(tick) + 4,
                            TickText(tick));
    }
    for (const double tick : RoundTicks(x_.low, x_.high, 6)) {
      if (tick != std::floor(tick)) continue;
      absl::StrAppendFormat(
          &svg, "<text class=\"axis\" x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%.12g</text>\n",
          X(static_cast<int64_t>(tick)), kHeight - 8, tick);
    }
    return svg;
  }

 private:
  static void Widen(Range* range, double share) {
    constexpr double kMax = std::numeric_limits<double>::max();
    double margin = range->high * share - range->low * share;
    if (!(range->high > range->low)) margin = std::max(std::abs(range->low) * 0.1, 0.5);
    range->low = std::max(range->low - margin, -kMax);
    range->high = std::min(range->high + margin, kMax);
  }

  std::vector<double> YTicks() const {
    if (!is_logarithmic_) return RoundTicks(y_.low, y_.high, 5);
    std::vector<double> ticks;
    const int first = static_cast<int>(std::ceil(std::log10(y_.low) - 1e-9));
    const int last = static_cast<int>(std::floor(std::log10(y_.high) + 1e-9));
    const int stride = std::max(1, (last - first + 1) / 6);
    for (int e = first; e <= last; e += stride) ticks.push_back(std::pow(10, e));
    return ticks;
  }

  Range x_, y_;
  bool is_logarithmic_;
};

// Returns the bias-corrected exponential moving average of the points.
std::vector<Point> Smoothed(const std::vector<Point>& points) {
  std::vector<Point> out = points;
  double sum = 0, weight = 0;
  for (Point& point : out) {
    if (!std::isfinite(point.value)) continue;
    sum = kSmoothing * sum + (1 - kSmoothing) * point.value;
    weight = kSmoothing * weight + (1 - kSmoothing);
    point.value = sum / weight;
  }
  return out;
}

// Reduces a long series to the smallest and the largest value of each column, in their original
// order.
std::vector<Point> Thinned(const std::vector<Point>& points) {
  if (points.size() <= 2 * kColumns) return points;
  std::vector<Point> out;
  for (size_t column = 0; column < kColumns; ++column) {
    const auto begin = points.begin() + static_cast<ptrdiff_t>(column * points.size() / kColumns);
    const auto end =
        points.begin() + static_cast<ptrdiff_t>((column + 1) * points.size() / kColumns);
    // Keep the gap: a non-finite value would make the comparisons below meaningless.
    const auto gap =
        std::find_if(begin, end, [](const Point& p) { return !std::isfinite(p.value); });
    if (gap != end) {
      out.push_back(*gap);
      continue;
    }
    auto [least, most] = std::minmax_element(
        begin, end, [](const Point& a, const Point& b) { return a.value < b.value; });
    if (most < least) std::swap(least, most);
    out.push_back(*least);
    if (most != least) out.push_back(*most);
  }
  return out;
}

std::string Path(const Axes& axes, const std::vector<Point>& points, absl::string_view css_class) {
  std::string path;
  bool pen_is_down = false;
  for (const Point& point : Thinned(points)) {
    if (!std::isfinite(point.value)) {
      pen_is_down = false;
      continue;
    }
    absl::StrAppendFormat(&path, "%s%.1f %.1f", pen_is_down ? "L" : "M", axes.X(point.step),
                          axes.Y(point.value));
    // Draw a zero-length line, which appears as a dot, so that isolated points are visible.
    if (!pen_is_down) path += "h0";
    pen_is_down = true;
  }
  return absl::StrCat("<path class=\"", css_class, "\" d=\"", path, "\"/>\n");
}

std::string Hits(const Axes& axes, const LineSeries& line) {
  std::string svg;
  const std::vector<Point>& points = *line.points;
  const size_t count = std::min(points.size(), kHits);
  const std::string name = HtmlText(line.name, kMaxHitName);
  for (size_t i = 0; i < count; ++i) {
    const Point& point = points[count == 1 ? 0 : i * (points.size() - 1) / (count - 1)];
    if (!std::isfinite(point.value)) continue;
    const bool is_dot = points.size() <= kDots;
    absl::StrAppendFormat(&svg,
                          "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>%s, "
                          "step %d: %.5g</title></circle>",
                          is_dot ? "dot" : "hit", axes.X(point.step), axes.Y(point.value),
                          is_dot ? 3 : 5, name, point.step, point.value);
  }
  return svg + "\n";
}

}  // namespace

std::vector<Chart> ChartsOf(const std::map<std::string, std::vector<Point>>& series) {
  std::vector<Chart> charts;
  std::map<std::string, size_t> of_title;
  for (const auto& [name, points] : series) {
    const ChartAndLine place = SplitName(name);
    const auto [chart, is_new] = of_title.emplace(place.chart, charts.size());
    if (is_new) charts.push_back({SectionOf(place.chart), place.chart, {}});
    charts[chart->second].lines.push_back({place.line, &points});
  }
  for (Chart& chart : charts) {
    for (LineSeries& line : chart.lines) {
      // In Keras, the series without a prefix is the training series.
      if (line.name.empty()) line.name = chart.lines.size() > 1 ? "training" : chart.title;
    }
  }
  std::ranges::stable_sort(charts, {},
                           [](const Chart& chart) { return std::tie(chart.section, chart.title); });
  return charts;
}

std::vector<Point> StepsPerSecond(const std::map<std::string, std::vector<Point>>& series) {
  constexpr size_t kIntervals = 100;
  const std::vector<Point>* longest = nullptr;
  for (const auto& [name, points] : series) {
    const bool has_times = std::ranges::all_of(points, [](const Point& p) { return p.time > 0; });
    if (has_times && (longest == nullptr || points.size() > longest->size())) longest = &points;
  }
  std::vector<Point> rates;
  if (longest == nullptr || longest->size() < 3) return rates;
  // Average over several points, because the times between single points vary.
  const size_t stride = std::max<size_t>(1, longest->size() / kIntervals);
  for (size_t i = stride; i < longest->size(); i += stride) {
    const Point &before = (*longest)[i - stride], &after = (*longest)[i];
    if (after.time <= before.time) continue;
    rates.push_back({after.step,
                     static_cast<double>(after.step - before.step) / (after.time - before.time),
                     after.time});
  }
  return rates;
}

std::string LineChart(absl::string_view title, const std::vector<LineSeries>& series,
                      bool may_be_logarithmic) {
  const Axes axes(series, may_be_logarithmic);
  std::string svg =
      absl::StrFormat("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s\">\n", kWidth,
                      kHeight, HtmlText(title));
  svg += axes.Draw();
  for (size_t i = 0; i < series.size(); ++i) {
    absl::StrAppend(&svg, "<g style=\"color:var(--c", i % kChartColours, ")\">\n");
    const std::vector<Point>& points = *series[i].points;
    if (points.size() > kSmoothFrom) {
      absl::StrAppend(&svg, Path(axes, points, "raw"), Path(axes, Smoothed(points), "line"));
    } else {
      svg += Path(axes, points, "line");
    }
    absl::StrAppend(&svg, Hits(axes, series[i]), "</g>\n");
  }
  return svg + "</svg>\n";
}

}  // namespace mirrorflow
