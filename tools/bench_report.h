// SPDX-License-Identifier: Apache-2.0
//
// Report: what `mirrorflow bench` found, a line each for a person and an object each for --json.
#ifndef MIRRORFLOW_TOOLS_BENCH_REPORT_H_
#define MIRRORFLOW_TOOLS_BENCH_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tools/bench_graphs.h"
#include "tools/statistics.h"

namespace mirrorflow {

// Who was measured.
struct Implementation {
  std::string name = "mirrorflow";
  std::string version = "0.1";
};

class Report {
 public:
  void Add(absl::string_view name, int replicas, int64_t batch_size, const Timing& timing,
           const Implementation& of = {});
  // A figure that is no time, with the bound it should keep.
  void AddFigure(absl::string_view name, double value, double bound);
  // How many times as long as we the peer takes.
  void AddRatio(absl::string_view name, int replicas, int64_t batch_size, absl::string_view peer,
                const Ratio& ratio);
  // The same for --json only.
  void Remember(absl::string_view name, int replicas, int64_t batch_size, absl::string_view peer,
                const Ratio& ratio);
  void AddGraph(absl::string_view shape, const GraphCost& cost);
  // To the file that --json names, if any.
  absl::Status Write() const;

 private:
  std::string json_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_REPORT_H_
