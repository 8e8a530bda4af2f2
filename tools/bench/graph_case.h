// SPDX-License-Identifier: Apache-2.0
//
// The steps of graph files that `mirrorflow explain GRAPH` and `mirrorflow bench` measure.
#ifndef MIRRORFLOW_TOOLS_BENCH_GRAPH_CASE_H_
#define MIRRORFLOW_TOOLS_BENCH_GRAPH_CASE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mirrorflow_debug.h"
#include "tools/bench/training_case.h"
#include "tools/flags/command_line.h"
#include "tools/flags/step_selection.h"

namespace mirrorflow {

// A graph, and a step of it with the values of its feeds.
struct GraphCase {
  Graph graph;
  StepSelection step;
  std::vector<Tensor> feeds;
};

// Reads the graph file and selects the step that --feed, --fetch and --target describe; by default,
// the step computes the whole graph. Feeds that --feed does not name are random, and have `rows`
// rows if their leading dimension is unknown. On error, `*code` is the exit code.
absl::StatusOr<GraphCase> ReadGraphCase(const std::string& path, int64_t rows, ExitCode* code);

// Prepares the step, with the variables from --variables.
absl::StatusOr<ReadyStep> PrepareGraph(const GraphCase& of, std::unique_ptr<Strategy> strategy);

// Returns InvalidArgument, naming the flag, if a flag is set that describes the step of a graph
// file or its values: --feed, --fetch, --target, --variables. For cases without a graph file.
absl::Status CheckNoGraphStepFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_GRAPH_CASE_H_
