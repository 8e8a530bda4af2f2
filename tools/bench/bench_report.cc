// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench_report.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/core/file.h"
#include "framework/core/json.h"
#include "framework/core/terminal.h"
#include "nlohmann/json.hpp"
#include "tools/flags/step_flags.h"

namespace mirrorflow {
namespace {

void Print(absl::string_view line) {
  PrintLine(line);
  std::fflush(stdout);
}

std::string WithUnit(const std::string& number, absl::string_view unit) {
  return unit.empty() ? number : absl::StrCat(number, " ", unit);
}

std::string FigureText(const Estimate& figure, absl::string_view unit) {
  std::string text = WithUnit(FormatNumber(figure.median), unit);
  if (figure.low < figure.high) {
    absl::StrAppend(&text, " (", FormatNumber(figure.low), " to ", FormatNumber(figure.high), ")");
  }
  return text;
}

}  // namespace

Implementation WithoutPasses(const std::vector<std::string>& passes) {
  Implementation of;
  absl::StrAppend(&of.name, " without ", absl::StrJoin(passes, ", "));
  return of;
}

std::string FormatNumber(double value) {
  if (value >= 1000) return absl::StrFormat("%.0f", value);
  return absl::StrFormat("%.3g", value);
}

std::string FormatMs(double ms) {
  if (ms < 1e-3) return absl::StrCat(FormatNumber(ms * 1e6), " ns");
  if (ms < 1) return absl::StrCat(FormatNumber(ms * 1e3), " µs");
  return absl::StrCat(FormatNumber(ms), " ms");
}

std::string FormatMedian(const Rounds& rounds, size_t side) {
  return FormatMs(TimingOf(rounds, side).median_ms);
}

const char* Verdict(const Goal& goal) {
  if (!goal.gated) return "reported";
  return goal.at_most ? VerdictAtMost(goal.figure, goal.bound)
                      : VerdictAtLeast(goal.figure, goal.bound);
}

std::string TableHead() {
  return "| gate | case | ours | peer | ratio or figure (90 %) | bound | verdict |\n"
         "| --- | --- | --- | --- | --- | --- | --- |";
}

std::string TableRow(const Goal& goal, absl::string_view verdict, absl::string_view why) {
  const bool plain = verdict == "met" || verdict == "reported";
  // A lower bound of 0 stands for a goal whose measurement failed before its bound was known.
  const bool bounded = goal.gated && (goal.at_most || goal.bound > 0);
  const std::string bound = bounded ? absl::StrCat(goal.at_most ? "≤ " : "≥ ",
                                                   WithUnit(FormatNumber(goal.bound), goal.unit))
                                    : "";
  return absl::StrFormat("| %s | %s | %s | %s | %s | %s | %s%s%s |", goal.gate, goal.what,
                         goal.ours, goal.peer,
                         why.empty() ? FigureText(goal.figure, goal.unit) : std::string(why), bound,
                         plain ? "" : "**", verdict, plain ? "" : "**");
}

Report Report::Table(std::vector<std::string> gates) {
  Report report;
  report.table_ = true;
  report.gates_ = std::move(gates);
  return report;
}

bool Report::Wants(absl::string_view gate) const {
  if (table_ && gate.empty()) return false;
  return gates_.empty() || std::find(gates_.begin(), gates_.end(), gate) != gates_.end();
}

void Report::Add(absl::string_view name, int replicas, int64_t batch_size, const Timing& timing,
                 const Implementation& of) {
  nlohmann::ordered_json json = {{"case", name},
                                 {"implementation", of.name},
                                 {"version", of.version},
                                 {"replicas", replicas},
                                 {"batch_size_per_replica", batch_size},
                                 {"median_ms", timing.median_ms},
                                 {"min_ms", timing.min_ms},
                                 {"iqr_ms", timing.iqr_ms},
                                 {"rounds", timing.rounds}};
  std::string text = absl::StrFormat(
      "%-20s %-10s replicas=%d batch_size=%-4d median_ms=%.4f min_ms=%.4f iqr_ms=%.4f rounds=%d "
      "discarded=%d",
      name, of.name, replicas, batch_size, timing.median_ms, timing.min_ms, timing.iqr_ms,
      timing.rounds, timing.discarded);
  if (!of.settings.empty()) {
    json["settings"] = of.settings;
    absl::StrAppend(&text, " ", of.settings);
  }
  if (of.empty_call_ms > 0) {
    json["empty_call_ms"] = of.empty_call_ms;
    absl::StrAppend(&text, " empty_call=", FormatMs(of.empty_call_ms));
  }
  AddLine(text, json);
}

void Report::AddStep(absl::string_view model, int replicas, int64_t batch_size,
                     const Timing& timing, const Implementation& of) {
  steps_.push_back({std::string(model), replicas, batch_size, of.name, timing.median_ms});
  Add(absl::StrCat("step/", model), replicas, batch_size, timing, of);
}

void Report::AddRatio(absl::string_view name, int replicas, int64_t batch_size,
                      absl::string_view peer, const Estimate& ratio) {
  AddLine(absl::StrFormat("%-20s %s / mirrorflow = %.3f (90 %%: %.3f to %.3f)", name, peer,
                          ratio.median, ratio.low, ratio.high),
          {{"case", name},
           {"peer", peer},
           {"replicas", replicas},
           {"batch_size_per_replica", batch_size},
           {"ratio", ratio.median},
           {"low", ratio.low},
           {"high", ratio.high}});
}

void Report::Add(const Goal& goal) {
  if (!Wants(goal.gate)) return;
  const char* verdict = Verdict(goal);
  AddLine(absl::StrFormat("%-3s %-45s %s (%s %s) %s", goal.gate, goal.what,
                          FigureText(goal.figure, goal.unit), goal.at_most ? "at most" : "at least",
                          FormatNumber(goal.bound), verdict),
          {{"gate", goal.gate},
           {"case", goal.what},
           {"ours", goal.ours},
           {"peer", goal.peer},
           {"value", goal.figure.median},
           {"low", goal.figure.low},
           {"high", goal.figure.high},
           {"unit", goal.unit},
           {goal.at_most ? "at_most" : "at_least", goal.bound},
           {"verdict", verdict}});
  if (table_) Print(TableRow(goal, verdict, ""));
}

void Report::AddUnmeasured(const Goal& goal, absl::string_view why) {
  constexpr char kNotMeasured[] = "not measured";
  if (!Wants(goal.gate)) return;
  AddLine(absl::StrFormat("%-3s %-45s %s: %s", goal.gate, goal.what, kNotMeasured, why),
          {{"gate", goal.gate}, {"case", goal.what}, {"verdict", kNotMeasured}, {"why", why}});
  // A message may contain line breaks and vertical bars, which a table cell cannot.
  std::string cell(why);
  for (char& c : cell) c = c == '\n' || c == '|' ? ' ' : c;
  if (table_) Print(TableRow(goal, kNotMeasured, cell));
}

void Report::AddLine(absl::string_view text, const nlohmann::ordered_json& json) {
  if (!table_) Print(text);
  absl::StrAppend(&json_, JsonText(json), "\n");
}

absl::Status Report::Write() const {
  const std::string path = absl::GetFlag(FLAGS_json);
  if (path.empty()) return absl::OkStatus();
  return WriteFileAtomically(path, {json_});
}

}  // namespace mirrorflow
