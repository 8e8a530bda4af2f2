// SPDX-License-Identifier: Apache-2.0
//
// What must hold of a GraphDef from outside before anything is made of it. There is one way in,
// FromGraphDef (graph_def.h), and it takes three steps that trust nothing:
//   ValidateGraphDef      the message as a whole: versions, the library of functions, the size
//   InlineFunctionCalls   each call of a function
//   AssembleGraph         each node: its name, inputs, attributes, dtypes and shapes; cycles
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_VALIDATE_GRAPH_DEF_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_VALIDATE_GRAPH_DEF_H_

#include "absl/status/status.h"
#include "framework/graph/graph_limits.h"
#include "framework/proto/graph.pb.h"

namespace mirrorflow {

// TensorFlow's version numbers: what we write is of this one, and what needs a newer reader is
// refused.
inline constexpr int kGraphDefVersion = 808;
inline constexpr int kGraphDefMinConsumer = 12;

// InvalidArgument for a graph that needs a newer reader, a function without a name or functions
// that call each other in a circle. ResourceExhausted for a graph that would become larger than the
// limits, naming the node that makes it so. Linear in the size of the message, which is not changed
// and not copied.
absl::Status ValidateGraphDef(const proto::GraphDef& def, const GraphLimits& limits = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_VALIDATE_GRAPH_DEF_H_
