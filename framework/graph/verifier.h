// SPDX-License-Identifier: Apache-2.0
//
// VerifyGraph: what every pass may rely on and must leave true.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_VERIFIER_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_VERIFIER_H_

#include "absl/status/status.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// InvalidArgument with up to ErrorList::kMaxErrors errors, a line each, unless all of this holds:
//  * names are legal, unique and found by FindNode; nodes are counted right and stand at their ids;
//  * attributes are complete, of their types and in range;
//  * inputs are existing outputs of nodes of this graph, as many and of the dtypes as the schema
//    says; outputs have the dtypes that it says;
//  * control inputs are nodes of this graph, each once, never the node itself;
//  * the uses of a node are exactly the inputs and control inputs that name it;
//  * there is no cycle.
absl::Status VerifyGraph(const Graph& graph);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_VERIFIER_H_
