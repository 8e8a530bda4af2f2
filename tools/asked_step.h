// SPDX-License-Identifier: Apache-2.0
//
// The step of a graph that a command line asks for.
#ifndef MIRRORFLOW_TOOLS_ASKED_STEP_H_
#define MIRRORFLOW_TOOLS_ASKED_STEP_H_

#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/shape.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// What is fetched and run, and the placeholders that this needs, which are fed.
struct AskedStep {
  std::vector<Output> feeds;
  std::vector<Shape> shapes;
  std::vector<Output> fetches;
  std::vector<Operation> targets;
};

// What --fetch and --target say, without feeds. InvalidArgument names the flag.
absl::StatusOr<AskedStep> StepOfFlags(const Graph& graph);

// `step` with its feeds: leading dimensions that are open have `rows`, others 1. If nothing has
// been asked for, that is to ask for all: what nobody uses is fetched, or run if it has no value,
// and all placeholders are fed.
absl::StatusOr<AskedStep> WithFeeds(const Graph& graph, AskedStep step, int64_t rows);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_ASKED_STEP_H_
