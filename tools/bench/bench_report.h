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
  std::string settings = "";  // that a peer chose
  double empty_call_ms = 0;   // that a call of a peer takes without a computation; 0: unknown
};

// Returns Mirrorflow, for a side that skips these compiler passes.
Implementation WithoutPasses(const std::vector<std::string>& passes);

// A measured figure and the bound that it should satisfy.
struct Goal {
  std::string gate;  // such as C9; empty if none
  std::string what;  // the case
  Estimate figure;
  std::string unit;  // unit of the figure and the bound; empty for a ratio
  double bound = 0;
  bool at_most = false;  // whether `bound` is an upper bound, not a lower bound
  bool gated = true;     // whether there is a bound
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
  // Prints the rows of a table, for these gates only. If `gates` is empty, prints all rows.
  static Report Table(std::vector<std::string> gates);

  // Returns whether goals of this gate are shown.
  bool Wants(absl::string_view gate) const;

  void Add(absl::string_view name, int replicas, int64_t batch_size, const Timing& timing,
           const Implementation& of = {});
  void AddStep(absl::string_view model, int replicas, int64_t batch_size, const Timing& timing,
               const Implementation& of = {});
  // Adds the ratio of the peer's time to Mirrorflow's.
  void AddRatio(absl::string_view name, int replicas, int64_t batch_size, absl::string_view peer,
                const Estimate& ratio);
  void Add(const Goal& goal);
  // Adds a goal that could not be measured, and the reason.
  void AddUnmeasured(const Goal& goal, absl::string_view why);
  // Adds any other result: a line of text, which a table omits, and a JSON object.
  void AddLine(absl::string_view text, const nlohmann::ordered_json& json);

  // Returns the steps that were passed to AddStep.
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

// Formats a number with three significant digits, or, if it is at least 1000, with all digits
// before the decimal point.
std::string FormatNumber(double value);
// Formats a time with three significant digits and a unit: `62 ns`, `1.25 ms`.
std::string FormatMs(double ms);
// Formats the median time of a side.
std::string FormatMedian(const Rounds& rounds, size_t side);
// Formats a row of the table. A non-empty `why` replaces the figure.
std::string TableRow(const Goal& goal, absl::string_view verdict, absl::string_view why);
// Formats the table's header lines.
std::string TableHead();
// Returns `met`, `missed`, `undecided`, or `reported` if there is no bound.
const char* Verdict(const Goal& goal);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_BENCH_REPORT_H_
