// SPDX-License-Identifier: Apache-2.0
//
// Report: what `mirrorflow bench` found, a line each for a person and an object each for --json.
// The lines are text or, of `bench gates`, the rows of one Markdown table.
#ifndef MIRRORFLOW_TOOLS_BENCH_REPORT_H_
#define MIRRORFLOW_TOOLS_BENCH_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tools/statistics.h"

namespace mirrorflow {

// Who was measured.
struct Implementation {
  std::string name = "mirrorflow";
  std::string version = "0.1";
};

// A figure and the bound that it should keep.
struct Goal {
  std::string gate;  // C9; empty: of no gate
  std::string what;  // the case
  Estimate figure;
  std::string unit;  // of the figure and the bound; a ratio has none
  double bound = 0;
  bool at_most = false;  // the bound; else at least
  // What was measured of each side, where the figure is made of two.
  std::string ours;
  std::string peer;
};

// How long a training step took on one side.
struct StepTime {
  std::string model;
  int replicas;
  int64_t batch_size;
  std::string implementation;
  double median_ms;
};

class Report {
 public:
  // Lines of text.
  Report() = default;
  // Rows of a table, of these gates only; empty: of all.
  static Report Table(std::vector<std::string> gates);

  // Whether goals of this gate are shown.
  bool Wants(absl::string_view gate) const;

  void Add(absl::string_view name, int replicas, int64_t batch_size, const Timing& timing,
           const Implementation& of = {});
  void AddStep(absl::string_view model, int replicas, int64_t batch_size, const Timing& timing,
               const Implementation& of = {});
  // How many times as long as we the peer takes.
  void AddRatio(absl::string_view name, int replicas, int64_t batch_size, absl::string_view peer,
                const Estimate& ratio);
  void Add(const Goal& goal);
  // A goal without a figure, and the reason.
  void AddUnmeasured(const Goal& goal, absl::string_view verdict, absl::string_view why);
  // Anything else: a line of text, which a table leaves out, and an object.
  void AddLine(absl::string_view text, absl::string_view json);

  // All that AddStep was given.
  const std::vector<StepTime>& steps() const { return steps_; }
  const std::string& json() const { return json_; }
  // To the file that --json names, if any.
  absl::Status Write() const;

 private:
  bool table_ = false;
  std::vector<std::string> gates_;
  std::vector<StepTime> steps_;
  std::string json_;
};

// Three digits, and never as a power of ten.
std::string FormatNumber(double value);
// Three digits and a unit: `62 ns`, `1.25 ms`.
std::string FormatMs(double ms);
// The row of the table, without its figure if `why` says so.
std::string TableRow(const Goal& goal, absl::string_view verdict, absl::string_view why);
// The lines above the first row.
std::string TableHead();
const char* Verdict(const Goal& goal);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_REPORT_H_
