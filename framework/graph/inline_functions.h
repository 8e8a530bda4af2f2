// SPDX-License-Identifier: Apache-2.0
//
// Replaces function calls with the bodies of the called functions, as TensorFlow does before it
// runs a graph. Works on protobuf messages, because a body cannot be a Graph before it is inlined:
// it names its nodes' outputs by argument and may have attributes that only a call supplies.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_INLINE_FUNCTIONS_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_INLINE_FUNCTIONS_H_

#include "absl/status/statusor.h"
#include "framework/graph/graph_limits.h"
#include "framework/graph/op_registry.h"
#include "framework/proto/graph.pb.h"

namespace mirrorflow {

// Returns true if a node in the graph itself is a PartitionedCall or StatefulPartitionedCall, or if
// its op is a library function that the registry lacks.
bool HasFunctionCalls(const proto::GraphDef& def, const OpRegistry& registry);

// Returns the nodes of `def` with each call inlined, without the library. The node `call` remains,
// as an Identity (or IdentityN, or NoOp) of the results, so that it can be fetched, run and waited
// for. It has control inputs from the nodes that the function must always run (control_ret). The
// nodes of the body are named `call/…`. Resources are connected directly to their users. Functions
// in attributes of other ops (If, While) are left unchanged.
//
// Returns InvalidArgument, naming the call, for an unknown function, a wrong argument count, an
// attribute that the call does not supply, or an output that does not exist. Returns
// ResourceExhausted if copies of the attributes and inputs of calls exceed the limits.
// ValidateGraphDef, which must run first, bounds everything else.
absl::StatusOr<proto::GraphDef> InlineFunctionCalls(const proto::GraphDef& def,
                                                    const OpRegistry& registry,
                                                    const GraphLimits& limits = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_INLINE_FUNCTIONS_H_
