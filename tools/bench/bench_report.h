// SPDX-License-Identifier: Apache-2.0
//
// Report: prints each result of `mirrorflow bench` as a line and collects it as a JSON object,
// which Write() saves to --json. Lines are text or, for `bench gates`, the rows of one Markdown
// table.
#ifndef MIRRORFLOW_TOOLS_BENCH_BENCH_REPORT_H_
#define MIRRORFLOW_TOOLS_BENCH_BENCH_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/statistics.h"

namespace mirrorflow {

// The program that was measured.
struct Implementation {
  std::string name = "mirrorflow";
  std::string version = "0.1";
};

// A figure and the bound that it should satisfy.
struct Goal {
  std::string gate;  // such as C9; empty: none
  std::string what;  // the case
  Estimate figure;
  std::string unit;  // of the figure and the bound; empty for a ratio
  double bound = 0;
  bool at_most = false;  // the bound is an upper one, otherwise a lower one
  bool gated = true;     // otherwise there is no bound
  // The measurement of each side, if the figure is a ratio of two.
  std::string ours;
  std::string peer;
};

// The time of a training step on one side.
struct StepTime {
  std::string model;
  int replicas;
  int64_t batch_size;
  std::string implementation;
  double median_ms;
};

class Report {
 public:
  // Prints lines of text.
  Report() = default;
  // Prints rows of a table, only for these gates; empty: for all.
  static Report Table(std::vector<std::string> gates);

  // Returns whether goals of this gate are shown.
  bool Wants(absl::string_view gate) const;

  void Add(absl::string_view name, int replicas, int64_t batch_size, const Timing& timing,
           const Implementation& of = {});
  void AddStep(absl::string_view model, int replicas, int64_t batch_size, const Timing& timing,
               const Implementation& of = {});
  // Adds the ratio of the peer's time to ours.
  void AddRatio(absl::string_view name, int replicas, int64_t batch_size, absl::string_view peer,
                const Estimate& ratio);
  void Add(const Goal& goal);
  // Adds a goal without a figure, and the reason.
  void AddUnmeasured(const Goal& goal, absl::string_view why);
  // Adds any other result: a line of text, which a table leaves out, and an object.
  void AddLine(absl::string_view text, const nlohmann::ordered_json& json);

  // The steps that were passed to AddStep.
  const std::vector<StepTime>& steps() const { return steps_; }
  const std::string& json() const { return json_; }
  // Writes the objects to the file that --json names, if any.
  absl::Status Write() const;

 private:
  bool table_ = false;
  std::vector<std::string> gates_;
  std::vector<StepTime> steps_;
  std::string json_;
};

// Formats three significant digits, or all digits before the point from 1000 on.
std::string FormatNumber(double value);
// Formats three significant digits and a unit: `62 ns`, `1.25 ms`.
std::string FormatMs(double ms);
// Formats the median time of a side.
std::string FormatMedian(const Rounds& rounds, size_t side);
// Formats a row of the table. A non-empty `why` replaces the figure.
std::string TableRow(const Goal& goal, absl::string_view verdict, absl::string_view why);
// Formats the lines above the first row.
std::string TableHead();
// `met`, `missed`, `undecided`, or `reported` without a bound.
const char* Verdict(const Goal& goal);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_BENCH_REPORT_H_
