// SPDX-License-Identifier: Apache-2.0
//
// Calls of functions, put in place by the bodies of what they call, as TensorFlow does before it
// runs a graph. On messages: a body names its nodes' outputs by argument, and may have attributes
// that only a call gives, so it is no graph of ours before it is inlined.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_INLINE_FUNCTIONS_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_INLINE_FUNCTIONS_H_

#include "absl/status/statusor.h"
#include "framework/graph/graph_limits.h"
#include "framework/graph/op_registry.h"
#include "framework/proto/graph.pb.h"

namespace mirrorflow {

// Whether a node of the graph itself is a PartitionedCall or StatefulPartitionedCall, or has a
// function of the library for its op.
bool HasFunctionCalls(const proto::GraphDef& def);

// The nodes of `def` with each call inlined, without the library. The node `call` stays, as the
// Identity (or IdentityN, or NoOp) of what it returns, so that it can be fetched, run and waited
// for: it waits for what the function must run in any case (control_ret). The body's nodes are
// called `call/…`. Resources go straight from where they are made to where they are used. Functions
// that are arguments of other ops (If, While) stay as they are.
//
// InvalidArgument, naming the call: an unknown function, a wrong number of arguments, an attribute
// that the call does not give, an output that does not exist; ResourceExhausted where attributes
// that calls give multiply beyond the limits. The rest of what could is found by ValidateGraphDef,
// which must have come first.
absl::StatusOr<proto::GraphDef> InlineFunctionCalls(const proto::GraphDef& def,
                                                    const OpRegistry& registry,
                                                    const GraphLimits& limits = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_INLINE_FUNCTIONS_H_
