// SPDX-License-Identifier: Apache-2.0
//
// Selects the step of a graph that a command line asks for.
#ifndef MIRRORFLOW_TOOLS_STEP_SELECTION_H_
#define MIRRORFLOW_TOOLS_STEP_SELECTION_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/shape.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// The tensors to fetch, the nodes to run, and the placeholders that both need, with the shapes of
// their feeds.
struct StepSelection {
  std::vector<Output> feeds;
  std::vector<Shape> shapes;
  std::vector<Output> fetches;
  std::vector<Operation> targets;
};

// Returns the step that --fetch and --target select, without feeds, or InvalidArgument, naming the
// flag.
absl::StatusOr<StepSelection> SelectStepFromFlags(const Graph& graph);

// Returns the names of the variables whose values the step reads, before or after it writes them.
std::set<std::string> VariablesReadBy(const StepSelection& step);

// Returns `step` with its feeds: unknown leading dimensions are `rows`, other unknown ones 1. A
// step without fetches and targets stands for the whole graph: it fetches unused values, runs
// unused nodes without outputs and feeds all placeholders.
absl::StatusOr<StepSelection> WithFeeds(const Graph& graph, StepSelection step, int64_t rows);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_STEP_SELECTION_H_
