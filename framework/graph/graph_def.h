// SPDX-License-Identifier: Apache-2.0
//
// Converts graphs to and from TensorFlow's GraphDef. TensorFlow can read the graphs that ToGraphDef
// writes if it has their ops, and FromGraphDef can read TensorFlow's graphs if the registry has
// their ops.
//
// Devices (a strategy places nodes) and debug information are dropped, because a Graph does not
// represent them. Attributes that start with `_` and the function library are kept.
//
// An op here may have an argument that TensorFlow's op lacks. If it is the last argument and its
// count is an attribute that starts with `_`, it is exported in a different form. For example, the
// last argument of
//   ResourceApplyMomentum(var, …, gate) {_gates=1}
// is `predicate: _gates * bool`. The exported node gets the control input `^gate` and the attribute
// _predicate="gate:0" (a list of strings for several) in place of the input and of `_gates`.
// Reading reverses this.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_DEF_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_DEF_H_

#include "absl/status/statusor.h"
#include "framework/graph/graph.h"
#include "framework/graph/graph_limits.h"
#include "framework/graph/op_registry.h"
#include "framework/proto/graph.pb.h"

namespace mirrorflow {

// Converts a graph. Nodes are in topological order, with ties broken by id, and have all
// attributes, including defaults. Returns the first error from building the graph, or
// InvalidArgument if the graph has a cycle.
absl::StatusOr<proto::GraphDef> ToGraphDef(const Graph& graph);

// Builds a graph and infers the shapes of all nodes, which may come in any order. This is the only
// entry point for untrusted messages; nothing in `def` is trusted (validate_graph_def.h). Returns
// InvalidArgument with up to ErrorList::kMaxErrors errors, one per line, which name the node, input
// or attribute, or ResourceExhausted if the graph would exceed the limits.
absl::StatusOr<Graph> FromGraphDef(const proto::GraphDef& def, const OpRegistry& registry,
                                   const GraphLimits& limits = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_DEF_H_
