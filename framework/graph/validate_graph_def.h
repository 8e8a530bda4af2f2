// SPDX-License-Identifier: Apache-2.0
//
// Validates a foreign GraphDef before anything is built from it. The only entry point is
// FromGraphDef (graph_def.h), which takes three steps that trust nothing:
//   ValidateGraphDef      the message as a whole: versions, the library of functions, the size
//   InlineFunctionCalls   each call of a function
//   AssembleGraph         each node: its name, inputs, attributes, dtypes and shapes; cycles
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_VALIDATE_GRAPH_DEF_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_VALIDATE_GRAPH_DEF_H_

#include "absl/status/status.h"
#include "framework/graph/graph_limits.h"
#include "framework/proto/graph.pb.h"

namespace mirrorflow {

// TensorFlow's version numbers. Graphs are written with this version, and a graph that needs a
// newer reader is rejected.
inline constexpr int kGraphDefVersion = 808;
inline constexpr int kGraphDefMinConsumer = 12;

// InvalidArgument for a graph that needs a newer reader, a function without a name, or functions
// that call each other in a cycle. ResourceExhausted, naming the node that exceeds them, for a
// graph beyond the limits. Linear in the size of the message, which is neither changed nor copied.
absl::Status ValidateGraphDef(const proto::GraphDef& def, const GraphLimits& limits = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_VALIDATE_GRAPH_DEF_H_
