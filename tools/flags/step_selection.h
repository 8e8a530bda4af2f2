// SPDX-License-Identifier: Apache-2.0
//
// Finds the nodes and tensors that the command line names in a graph, and selects a step.
#ifndef MIRRORFLOW_TOOLS_FLAGS_STEP_SELECTION_H_
#define MIRRORFLOW_TOOLS_FLAGS_STEP_SELECTION_H_

#include <set>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/shape.h"
#include "framework/graph/graph.h"

ABSL_DECLARE_FLAG(std::vector<std::string>, fetch);
ABSL_DECLARE_FLAG(std::vector<std::string>, target);

namespace mirrorflow {

// Returns the node named `name`, or InvalidArgument with similar names as a hint.
absl::StatusOr<Node*> NodeByName(const Graph& graph, absl::string_view name);
// Returns the output named `name`: `node` or `node:1`. Returns InvalidArgument if it does not
// exist, or if the node's op is unknown.
absl::StatusOr<Output> OutputByName(const Graph& graph, absl::string_view name);

// The tensors to fetch, the nodes to run, and the placeholders that they need, with the shapes of
// the feeds.
struct StepSelection {
  std::vector<Output> feeds;
  std::vector<Shape> shapes;
  std::vector<Output> fetches;
  std::vector<Operation> targets;
};

// Returns the nodes that --target names, or InvalidArgument, naming the flag.
absl::StatusOr<std::vector<Operation>> TargetsFromFlags(const Graph& graph);
// Returns the step that --fetch and --target select, without feeds, or InvalidArgument, naming the
// flag.
absl::StatusOr<StepSelection> SelectStepFromFlags(const Graph& graph);

// Returns the names of the variables that the step reads, before or after it writes them.
std::set<std::string> VariablesReadBy(const StepSelection& step);

// Adds the missing feeds to `step`. Sets unknown leading dimensions to `rows`, and other unknown
// dimensions to 1. If the step has neither fetches nor targets, selects the whole graph: fetches
// unused values, runs unused nodes without outputs, and feeds all placeholders.
absl::StatusOr<StepSelection> WithFeeds(const Graph& graph, StepSelection step, int64_t rows);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FLAGS_STEP_SELECTION_H_
