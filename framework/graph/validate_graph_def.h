// SPDX-License-Identifier: Apache-2.0
//
// Validates a foreign GraphDef before anything is built from it. FromGraphDef (graph_def.h), the
// only entry point, takes three steps and trusts the message in none of them:
//   ValidateGraphDef      checks the message as a whole: versions, function library, size
//   InlineFunctionCalls   checks and inlines each function call
//   AssembleGraph         checks each node: its name, inputs, attributes, dtypes, shapes; cycles
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

// Validates a message as a whole. Returns InvalidArgument for a graph that needs a newer reader, a
// function without a name, or functions that call each other in a cycle. Returns ResourceExhausted
// for a graph that is too large; the error names the node where the graph exceeds the limits. The
// time is linear in the size of the message, which is neither changed nor copied.
absl::Status ValidateGraphDef(const proto::GraphDef& def, const GraphLimits& limits = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_VALIDATE_GRAPH_DEF_H_
