// SPDX-License-Identifier: Apache-2.0
//
// Finds the nodes and tensors that a command line names in a graph, and the step that it selects.
#ifndef MIRRORFLOW_TOOLS_CLI_STEP_SELECTION_H_
#define MIRRORFLOW_TOOLS_CLI_STEP_SELECTION_H_

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

// Returns the node called `name`, or InvalidArgument, with the nearest names as a hint.
absl::StatusOr<Node*> NodeByName(const Graph& graph, absl::string_view name);
// Returns the output called `name`: `node` or `node:1`. Returns InvalidArgument if it does not
// exist, or if the node's op is unknown.
absl::StatusOr<Output> OutputByName(const Graph& graph, absl::string_view name);

// The tensors to fetch, the nodes to run, and the placeholders that they need, with the shapes of
// their feeds.
struct StepSelection {
  std::vector<Output> feeds;
  std::vector<Shape> shapes;
  std::vector<Output> fetches;
  std::vector<Operation> targets;
};

// Returns the nodes that --target names, or InvalidArgument, which names the flag.
absl::StatusOr<std::vector<Operation>> TargetsFromFlags(const Graph& graph);
// Returns the step that --fetch and --target select, without feeds, or InvalidArgument, which names
// the flag.
absl::StatusOr<StepSelection> SelectStepFromFlags(const Graph& graph);

// Returns the names of the variables whose values the step reads, before or after it writes them.
std::set<std::string> VariablesReadBy(const StepSelection& step);

// Returns `step` with its feeds. Sets unknown leading dimensions to `rows`, and other unknown
// dimensions to 1. A step without fetches and targets stands for the whole graph: it fetches unused
// values, runs unused nodes that have no outputs, and feeds all placeholders.
absl::StatusOr<StepSelection> WithFeeds(const Graph& graph, StepSelection step, int64_t rows);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_CLI_STEP_SELECTION_H_
