// SPDX-License-Identifier: Apache-2.0
//
// Writes and parses the text form of a graph, for dumps and tests. It has one node per line, in
// topological order, with ties broken by id:
//
//   @fn = "serialized FunctionDef"
//   name = Op(in0, in1:1, ^control) {attr=value, …}  # comment
//   w = VarHandleOp() {dtype=float, shape=<2>, …}  # in the scope of MirroredStrategy #1
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_TEXT_FORM_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_TEXT_FORM_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/graph/graph.h"
#include "framework/graph/graph_limits.h"
#include "framework/graph/op_registry.h"

namespace mirrorflow {

// Returns the comment for a variable that was created in the scope of a strategy; empty for all
// other nodes.
std::string StrategyOfVariable(const Node& node);

struct TextOptions {
  // If true, omits attributes that have their default value.
  bool omit_defaults = false;
  // If >= 0, truncates tensors with more elements. Truncated text cannot be parsed.
  int64_t max_elements = -1;
  // Returns the comment to write after a node; an empty comment is not written.
  std::function<std::string(const Node&)> comment = StrategyOfVariable;
};

// Returns the text form of a graph. Without `max_elements`, it parses to an equal graph. If the
// graph has a cycle, the nodes are written in id order.
std::string GraphToText(const Graph& graph, const TextOptions& options = {});

// Parses a graph and infers the shapes of all nodes, which may come in any order. Comments are
// lines that start with `#` and text that follows ` #` after a node. InvalidArgument with up to 20
// errors, one per line; ResourceExhausted for more nodes than the limits allow. Memory use is
// linear in the size of the text: no construct repeats a value or calls a function.
absl::StatusOr<Graph> ParseGraph(absl::string_view text, const OpRegistry& registry,
                                 const GraphLimits& limits = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_TEXT_FORM_H_
