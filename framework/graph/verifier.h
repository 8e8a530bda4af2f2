// SPDX-License-Identifier: Apache-2.0
//
// VerifyGraph: checks the invariants that every pass can rely on and must preserve.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_VERIFIER_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_VERIFIER_H_

#include "absl/status/status.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// Returns InvalidArgument, with up to ErrorList::kMaxErrors errors, one per line, unless all of
// these hold:
//  * names are legal, unique and found by FindNode;
//  * the node count is right, and each node is stored at its id;
//  * attributes are complete, have the declared types and are in range;
//  * inputs are existing outputs of nodes of this graph; the number and dtypes of inputs and
//    outputs match the schema;
//  * control inputs are nodes of this graph, listed once each, never the node itself;
//  * the uses of a node are exactly the inputs and control inputs that name it;
//  * there is no cycle.
absl::Status VerifyGraph(const Graph& graph);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_VERIFIER_H_
