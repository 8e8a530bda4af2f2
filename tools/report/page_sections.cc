// SPDX-License-Identifier: Apache-2.0
#include "tools/report/page_sections.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "tools/report/svg_chart.h"
#include "train/trainer/progress_format.h"

namespace mirrorflow {
namespace {

// ---- head ---------------------------------------------------------------------------------------

// Returns the value of a fact, or an empty string.
std::string Fact(const RunData& run, absl::string_view name) {
  for (const auto& [key, value] : run.facts) {
    if (key == name) return value;
  }
  return "";
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
    if (absl::ParseTime(absl::RFC3339_full, Fact(run, name), &time, nullptr)) {
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

// Orders metrics by relevance: accuracies first, then the most frequently measured metrics.
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
  const std::string replicas = Fact(run, "replicas");
  if (!replicas.empty()) return replicas;
  if (!run.checkpoints.empty()) return absl::StrCat(run.checkpoints.back().replicas);
  return run.timeline ? absl::StrCat(run.timeline->processes.size()) : "";
}

std::string FormatTime(double seconds) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S",
                          absl::UnixEpoch() + absl::Seconds(std::floor(seconds)),
                          absl::UTCTimeZone());
}

// ---- tables -------------------------------------------------------------------------------------

constexpr size_t kMaxEvents = 500;  // only the latest events are shown
constexpr size_t kMaxNames = 500;

// Builds a table. Columns with a heading that begins with `#` hold numbers.
class Table {
 public:
  Table(absl::string_view title, const std::vector<std::string>& headings) {
    html_ = absl::StrCat("<div class=\"card\"><h3>", HtmlText(title), "</h3><table>\n<tr>");
    for (const std::string& heading : headings) {
      is_number_.push_back(heading[0] == '#');
      absl::StrAppend(&html_, "<th", Class(is_number_.size() - 1), ">",
                      HtmlText(heading.substr(is_number_.back() ? 1 : 0)), "</th>");
    }
    html_ += "</tr>\n";
  }
  void Add(const std::vector<std::string>& cells) {
    is_empty_ = false;
    html_ += "<tr>";
    for (size_t i = 0; i < cells.size(); ++i) {
      absl::StrAppend(&html_, "<td", Class(i), ">", HtmlText(cells[i]), "</td>");
    }
    html_ += "</tr>\n";
  }
  std::string Html() const { return is_empty_ ? "" : html_ + "</table></div>\n"; }

 private:
  absl::string_view Class(size_t column) const { return is_number_[column] ? " class=\"n\"" : ""; }

  std::string html_;
  std::vector<bool> is_number_;
  bool is_empty_ = true;
};

std::string Section(absl::string_view title, std::initializer_list<std::string> cards) {
  std::string html;
  for (const std::string& card : cards) html += card;
  if (html.empty()) return "";
  return absl::StrCat("<h2>", title, "</h2>\n<div class=\"grid\">\n", html, "</div>\n");
}

std::string OfStep(double ms, const StepTimeline& timeline) {
  return absl::StrFormat("%.3g ms, %.0f %%", ms, timeline.ms > 0 ? 100 * ms / timeline.ms : 0.0);
}

std::string Bytes(uint64_t bytes) {
  if (bytes < 1000) return absl::StrCat(bytes, " B");
  const char* const units[] = {"kB", "MB", "GB", "TB"};
  double size = static_cast<double>(bytes) / 1e3;
  size_t unit = 0;
  for (; size >= 999.5 && unit + 1 < std::size(units); ++unit) size /= 1e3;
  return absl::StrFormat("%.3g %s", size, units[unit]);
}

std::string NamesTable(absl::string_view title, const RunData::Names& names) {
  Table table(title, {"name", "value"});
  for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) {
    table.Add({names[i].first, names[i].second});
  }
  if (names.size() > kMaxNames) {
    table.Add({absl::StrCat(names.size() - kMaxNames, " more are not shown"), ""});
  }
  return table.Html();
}

}  // namespace

std::string Subtitle(const RunData& run) {
  std::vector<std::string> parts;
  for (const char* name : {"strategy", "devices", "precision"}) {
    const std::string fact = Fact(run, name);
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
    html += Tile("traced step", absl::StrCat(FormatThreeDigits(run.timeline->ms), " ms"));
  }
  const std::string replicas = ReplicasOf(run);
  if (!replicas.empty()) html += Tile("replicas", replicas);
  int64_t parameters;
  if (absl::SimpleAtoi(Fact(run, "parameters"), &parameters)) {
    html += Tile("parameters", FormatCount(static_cast<double>(parameters)));
  }
  double seconds = 0;
  const Times times = TimesOf(run);
  if (!absl::SimpleAtod(Fact(run, "total_s"), &seconds) && times.known()) {
    seconds = times.end - times.begin;
  }
  constexpr double kMaxSeconds = 1e9;
  if (seconds > 0 && seconds < kMaxSeconds)
    html += Tile("time", FormatClock(absl::Seconds(seconds)));
  return html + "</div>\n";
}

std::string ReplicaTable(const StepTimeline& timeline) {
  Table table("Replicas", {"replica", "#kernels", "#waits", "#collectives in flight"});
  for (const StepTimeline::Process& process : timeline.processes) {
    table.Add({process.name, OfStep(process.kernels, timeline), OfStep(process.waiting, timeline),
               OfStep(process.in_flight, timeline)});
  }
  return table.Html();
}

std::string OpTable(const StepTimeline& timeline) {
  double total = 0;
  for (const StepTimeline::Process& process : timeline.processes) total += process.kernels;
  Table table("Kernels by op", {"op", "#all replicas", "#share"});
  for (const auto& [op, ms] : timeline.ms_by_op) {
    table.Add({op, absl::StrFormat("%.3g ms", ms),
               absl::StrFormat("%.1f %%", total > 0 ? 100 * ms / total : 0.0)});
  }
  return table.Html();
}

std::string MemorySection(const RunData& run) {
  Table table("Variables", {"", "#"});
  if (const std::string count = Fact(run, "parameters"); !count.empty()) {
    table.Add({"parameters", count});
  }
  if (!run.checkpoints.empty()) {
    table.Add(
        {"one checkpoint: parameters and optimizer state", Bytes(run.checkpoints.back().bytes)});
    uint64_t all = 0;
    for (const SavedCheckpoint& saved : run.checkpoints) all += saved.bytes;
    table.Add({"all checkpoints", Bytes(all)});
  }
  return Section("Model size", {table.Html()});
}

std::string EventSection(const RunData& run) {
  Table checkpoints("Checkpoints",
                    {"#step", "#epoch", "#workers", "#replicas", "#size", "written"});
  for (const SavedCheckpoint& saved : run.checkpoints) {
    checkpoints.Add({absl::StrCat(saved.step), absl::StrCat(saved.epoch),
                     absl::StrCat(saved.workers), absl::StrCat(saved.replicas), Bytes(saved.bytes),
                     saved.time});
  }
  Table events("Events", {"time", "event", "details"});
  const size_t first = run.events.size() - std::min(run.events.size(), kMaxEvents);
  for (size_t i = first; i < run.events.size(); ++i) {
    events.Add({run.events[i].time, run.events[i].what, run.events[i].details});
  }
  return Section("History", {checkpoints.Html(), events.Html()});
}

std::string FactsSection(const RunData& run) {
  return Section("Settings",
                 {NamesTable("Hyperparameters", run.hparams), NamesTable("Run", run.facts)});
}

}  // namespace mirrorflow
