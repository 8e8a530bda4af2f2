// SPDX-License-Identifier: Apache-2.0
//
// Ops that TensorFlow does not have (kOwnOp), in its files. A node of one calls a function that
// says the op in TensorFlow's ops: its expansion, for the attributes and dtypes of the node. The
// function has an attribute that names the op, and is called as the op is if the attributes are at
// their defaults and types are float; else it has a name of its own. Readers who know the op take
// the node for it.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_OWN_OPS_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_OWN_OPS_H_

#include "absl/status/status.h"
#include "framework/graph/function_library.h"
#include "framework/graph/graph.h"
#include "framework/graph/op_registry.h"
#include "framework/proto/graph.pb.h"

namespace mirrorflow {

// Adds the function that says `node`, which is `def`, to the library, unless it is there, and makes
// `def` call it.
absl::Status ExportOwnOp(const Node& node, FunctionLibrary* library, proto::NodeDef* def);

// InvalidArgument if a function of somebody else's has the name of an op of the registry that
// TensorFlow does not have: its calls would be taken for that.
absl::Status CheckOwnOps(const proto::GraphDef& def, const OpRegistry& registry);

// Whether the library has functions for ops of the registry that are not called as these are.
bool HasRenamedOwnOps(const proto::GraphDef& def, const OpRegistry& registry);
// Gives the calls of these functions, also in other functions, the ops' names again.
void RestoreOwnOps(const OpRegistry& registry, proto::GraphDef* def);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_OWN_OPS_H_
