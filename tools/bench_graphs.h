// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_BENCH_GRAPHS_H_
#define MIRRORFLOW_TOOLS_BENCH_GRAPHS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/bench_report.h"

namespace mirrorflow {

// What a graph of many nodes costs on its way from a file to a result.
struct GraphCost {
  int64_t nodes = 0;
  double load_ms = 0;     // read, parsed and validated
  double session_ms = 0;  // copied into a session, its variables laid out
  double compile_ms = 0;
  double run_ms = 0;
  int64_t peak_bytes = 0;  // of resident memory, over what was there before

  double total_ms() const { return load_ms + session_ms + compile_ms + run_ms; }
};

// `shape`: "chain", each node a function of the one before; "wide", as many products of one value,
// added up in pairs; "equal", the same with nodes that are all equal; "functions", a nest of calls
// as deep as half of the nodes. Writes the graph to a temporary file and removes it.
absl::StatusOr<GraphCost> MeasureGraph(absl::string_view shape, int64_t nodes);

// `mirrorflow bench graphs`: time and memory should grow as the nodes do, up to --max_nodes.
absl::Status BenchGraphs(Report* report);
// What its flag can get wrong.
absl::Status CheckGraphsFlag();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_GRAPHS_H_
