// SPDX-License-Identifier: Apache-2.0
//
// Graphs in TensorFlow's GraphDef and out of it. TensorFlow reads what is written here, as far as
// it knows the ops, and what TensorFlow writes is read here, as far as the registry knows them.
//
// What a GraphDef says and a Graph has no place for: devices (a strategy places nodes) and debug
// information are dropped; attributes that start with `_` are kept, as the library of functions is.
//
// TensorFlow's op may have fewer inputs than ours: an argument of ours that comes last and whose
// count is an attribute with a `_` is exported in other words. For
//   ResourceApplyMomentum(var, …, gate) {_gates=1}, whose last argument is `predicate: _gates *
//   bool`
// the node gets the control input `^gate` and the attribute _predicate="gate:0" (a list of strings
// for several) in place of the input and of `_gates`; reading undoes this.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_DEF_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_DEF_H_

#include "absl/status/statusor.h"
#include "framework/graph/graph.h"
#include "framework/graph/graph_limits.h"
#include "framework/graph/op_registry.h"
#include "framework/proto/graph.pb.h"

namespace mirrorflow {

// Nodes come in topological order, ties by id; all attributes are written, defaults too. Fails with
// what failed while the graph was built, or with a cycle.
absl::StatusOr<proto::GraphDef> ToGraphDef(const Graph& graph);

// Nodes may come in any order; the shapes of all are inferred. This is the only way in, and nothing
// in `def` is trusted (validate_graph_def.h). InvalidArgument with up to ErrorList::kMaxErrors
// errors, a line each, which name node, input or attribute; ResourceExhausted where the graph would
// become larger than the limits.
absl::StatusOr<Graph> FromGraphDef(const proto::GraphDef& def, const OpRegistry& registry,
                                   const GraphLimits& limits = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_DEF_H_
