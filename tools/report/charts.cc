// SPDX-License-Identifier: Apache-2.0
#include "tools/report/charts.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace mirrorflow {
namespace {

// Whether the word names the data on which a series is measured.
bool IsSplit(absl::string_view word) {
  for (const char* split : {"train", "training", "valid", "validation", "val", "test", "eval"}) {
    if (word == split) return true;
  }
  return false;
}

struct Place {
  std::string chart, line;
};

Place PlaceOf(absl::string_view name) {
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
    return std::any_of(words.begin(), words.end(),
                       [&](const char* word) { return absl::StrContains(name, word); });
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

}  // namespace

std::vector<Chart> ChartsOf(const std::map<std::string, std::vector<Point>>& series) {
  std::vector<Chart> charts;
  std::map<std::string, size_t> of_title;
  for (const auto& [name, points] : series) {
    const Place place = PlaceOf(name);
    const auto [chart, is_new] = of_title.emplace(place.chart, charts.size());
    if (is_new) charts.push_back({SectionOf(place.chart), place.chart, {}});
    charts[chart->second].lines.push_back({place.line, &points});
  }
  for (Chart& chart : charts) {
    for (LineSeries& line : chart.lines) {
      // In Keras, the series without a prefix is that of training.
      if (line.name.empty()) line.name = chart.lines.size() > 1 ? "training" : chart.title;
    }
  }
  std::stable_sort(charts.begin(), charts.end(), [](const Chart& a, const Chart& b) {
    return std::tie(a.section, a.title) < std::tie(b.section, b.title);
  });
  return charts;
}

std::vector<Point> StepsPerSecond(const std::map<std::string, std::vector<Point>>& series) {
  constexpr size_t kIntervals = 100;
  const std::vector<Point>* longest = nullptr;
  for (const auto& [name, points] : series) {
    const bool has_times =
        std::all_of(points.begin(), points.end(), [](const Point& p) { return p.time > 0; });
    if (has_times && (longest == nullptr || points.size() > longest->size())) longest = &points;
  }
  std::vector<Point> rates;
  if (longest == nullptr || longest->size() < 3) return rates;
  // Over several points, because the times of single ones vary.
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

}  // namespace mirrorflow
