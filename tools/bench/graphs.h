// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_BENCH_GRAPHS_H_
#define MIRRORFLOW_TOOLS_BENCH_GRAPHS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/bench/bench_report.h"

namespace mirrorflow {

// The costs of a large graph on its way from a file to a result.
struct GraphCost {
  int64_t nodes = 0;
  double load_ms = 0;     // to read, parse and validate it
  double session_ms = 0;  // to copy it into a session and lay out its variables
  double compile_ms = 0;
  double run_ms = 0;
  int64_t peak_bytes = 0;  // of resident memory, above that before the measurement

  double total_ms() const { return load_ms + session_ms + compile_ms + run_ms; }
};

// Measures a graph of about `nodes` nodes, which it writes to a temporary file and removes. `shape`
// is "chain": each node is a function of the one before; "wide": products of one value, added up in
// pairs; "equal": identical nodes of one value, added up in pairs; or "functions": function calls,
// nested half as deep as there are nodes.
absl::StatusOr<GraphCost> MeasureGraph(absl::string_view shape, int64_t nodes);

// `mirrorflow bench graphs`: measures graphs of up to --max_nodes nodes. Time and memory should
// grow in proportion to the nodes.
absl::Status BenchGraphs(Report* report);
// Checks the flag of BenchGraphs.
absl::Status CheckGraphsFlag();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_GRAPHS_H_
