// SPDX-License-Identifier: Apache-2.0
#include "tools/report/page_tiles.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "train/trainer/progress_format.h"

namespace mirrorflow {
namespace {

std::string FactOr(const RunData& run, absl::string_view name, absl::string_view otherwise) {
  for (const auto& [key, value] : run.facts) {
    if (key == name) return value;
  }
  return std::string(otherwise);
}

std::string Tile(absl::string_view what, absl::string_view value, absl::string_view css = "") {
  return absl::StrCat("<div class=\"tile\"><b class=\"", css, "\">", HtmlText(value), "</b><span>",
                      HtmlText(what), "</span></div>\n");
}

struct Times {
  double begin = INFINITY, end = -INFINITY;  // seconds since 1970
  bool known() const { return begin <= end; }
};

Times TimesOf(const RunData& run) {
  Times times;
  auto add = [&](double time) {
    times.begin = std::min(times.begin, time);
    times.end = std::max(times.end, time);
  };
  for (const auto& [name, points] : run.series) {
    for (const Point& point : points) {
      if (point.time > 0) add(point.time);
    }
  }
  for (const char* name : {"started", "ended"}) {
    absl::Time time;
    if (absl::ParseTime(absl::RFC3339_full, FactOr(run, name, ""), &time, nullptr)) {
      add(absl::ToDoubleSeconds(time - absl::UnixEpoch()));
    }
  }
  return times;
}

std::string StatusTile(const RunData& run) {
  for (auto event = run.events.rbegin(); event != run.events.rend(); ++event) {
    if (event->what == "started") break;
    if (event->what == "lost") return Tile("state", "failed", "bad");
  }
  return run.finished ? Tile("state", "finished", "good") : "";
}

int64_t StepsOf(const RunData& run) {
  int64_t steps = 0;
  for (const auto& [name, points] : run.series) steps = std::max(steps, points.back().step);
  for (const SavedCheckpoint& saved : run.checkpoints) steps = std::max(steps, saved.step);
  return steps;
}

// Orders metrics by interest: accuracies first, then those that were measured most often.
bool IsBetter(const Chart& a, const Chart& b) {
  auto key = [](const Chart& chart) {
    return std::pair(absl::StrContains(chart.title, "accuracy"), chart.lines[0].points->size());
  };
  return key(a) > key(b);
}

std::string LastValues(const Chart& chart) {
  std::string html;
  for (size_t i = 0; i < std::min<size_t>(chart.lines.size(), 2); ++i) {
    const LineSeries& line = chart.lines[i];
    const bool is_alone = chart.lines.size() == 1;
    const double value = line.points->back().value;
    html +=
        Tile(absl::StrCat("last ", chart.title, is_alone ? "" : ", ", is_alone ? "" : line.name),
             FormatMetric(value), std::isfinite(value) ? "" : "bad");
  }
  return html;
}

std::string ReplicasOf(const RunData& run) {
  const std::string replicas = FactOr(run, "replicas", "");
  if (!replicas.empty()) return replicas;
  if (!run.checkpoints.empty()) return absl::StrCat(run.checkpoints.back().replicas);
  return run.timeline ? absl::StrCat(run.timeline->processes.size()) : "";
}

std::string FormatTime(double seconds) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S",
                          absl::UnixEpoch() + absl::Seconds(std::floor(seconds)),
                          absl::UTCTimeZone());
}

}  // namespace

std::string Subtitle(const RunData& run) {
  std::vector<std::string> parts;
  for (const char* name : {"strategy", "devices", "precision"}) {
    const std::string fact = FactOr(run, name, "");
    if (!fact.empty()) parts.push_back(HtmlText(fact));
  }
  const Times times = TimesOf(run);
  if (times.known()) {
    parts.push_back(absl::StrCat(FormatTime(times.begin), " to ", FormatTime(times.end), " UTC"));
  }
  return absl::StrCat("<p class=\"dim\">", absl::StrJoin(parts, " · "), "</p>\n");
}

std::string Tiles(const RunData& run, const std::vector<Chart>& charts) {
  std::string html = absl::StrCat("<div class=\"tiles\">\n", StatusTile(run));
  if (StepsOf(run) > 0) html += Tile("steps", absl::StrCat(StepsOf(run)));
  const Chart* metric = nullptr;
  const Chart* rate = nullptr;
  for (const Chart& chart : charts) {
    if (chart.section == Chart::kMetrics && (metric == nullptr || IsBetter(chart, *metric))) {
      metric = &chart;
    }
    const bool is_rate = absl::StrContains(chart.title, "per_s");
    if (chart.section == Chart::kThroughput && is_rate && rate == nullptr) rate = &chart;
  }
  if (!charts.empty() && charts[0].section == Chart::kLosses) html += LastValues(charts[0]);
  if (metric != nullptr) html += LastValues(*metric);
  if (rate != nullptr) {
    const std::string unit = rate->title == "ex_per_s"      ? "examples per second"
                             : rate->title == "steps_per_s" ? "steps per second"
                                                            : rate->title;
    html += Tile(unit, FormatCount(rate->lines[0].points->back().value));
  }
  if (run.timeline) {
    html += Tile("a traced step", absl::StrCat(FormatThreeDigits(run.timeline->ms), " ms"));
  }
  const std::string replicas = ReplicasOf(run);
  if (!replicas.empty()) html += Tile("replicas", replicas);
  int64_t parameters;
  if (absl::SimpleAtoi(FactOr(run, "parameters", ""), &parameters)) {
    html += Tile("parameters", FormatCount(static_cast<double>(parameters)));
  }
  double seconds = 0;
  const Times times = TimesOf(run);
  if (!absl::SimpleAtod(FactOr(run, "total_s", ""), &seconds) && times.known()) {
    seconds = times.end - times.begin;
  }
  constexpr double kMostSeconds = 1e9;
  if (seconds > 0 && seconds < kMostSeconds)
    html += Tile("time", FormatClock(absl::Seconds(seconds)));
  return html + "</div>\n";
}

}  // namespace mirrorflow
