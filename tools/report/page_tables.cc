// SPDX-License-Identifier: Apache-2.0
#include "tools/report/page_tables.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/report/line_chart.h"

namespace mirrorflow {
namespace {

constexpr size_t kMostEvents = 500;  // the latest
constexpr size_t kMostNames = 500;

// Builds a table; columns whose heading begins with `#` hold numbers.
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
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    table.Add({names[i].first, names[i].second});
  }
  if (names.size() > kMostNames) {
    table.Add({absl::StrCat(names.size() - kMostNames, " more are left out"), ""});
  }
  return table.Html();
}

}  // namespace

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
  for (const auto& [name, value] : run.facts) {
    if (name == "parameters") table.Add({"parameters", value});
  }
  if (!run.checkpoints.empty()) {
    table.Add({"a checkpoint: parameters and the state of the optimizer",
               Bytes(run.checkpoints.back().bytes)});
    uint64_t all = 0;
    for (const SavedCheckpoint& saved : run.checkpoints) all += saved.bytes;
    table.Add({"all checkpoints", Bytes(all)});
  }
  return Section("Size of the model", {table.Html()});
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
  const size_t first = run.events.size() - std::min(run.events.size(), kMostEvents);
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
