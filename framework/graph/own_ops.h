// SPDX-License-Identifier: Apache-2.0
//
// Writes ops that TensorFlow lacks (kOwnOp) to TensorFlow files, and reads them back. In a file,
// such a node calls a function that consists of TensorFlow ops: the op's expansion for the node's
// attributes and dtypes. An attribute of the function names the op. The function has the op's name
// if all attributes have their defaults and all types are float; otherwise it has another name. A
// reader that knows the op turns the call back into the op.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_OWN_OPS_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_OWN_OPS_H_

#include <optional>

#include "absl/status/status.h"
#include "framework/graph/function_library.h"
#include "framework/graph/graph.h"
#include "framework/graph/op_registry.h"
#include "framework/proto/graph.pb.h"

namespace mirrorflow {

// Adds the function for `node` to the library if it is missing, and makes `def`, the node's
// message, call it.
absl::Status ExportOwnOp(const Node& node, FunctionLibrary* library, proto::NodeDef* def);

// Returns InvalidArgument if a foreign function has the name of a registered op that TensorFlow
// lacks, because its calls would be mistaken for that op.
absl::Status CheckOwnOps(const proto::GraphDef& def, const OpRegistry& registry);

// Returns a copy of `def` where all calls of expansions of registered ops under other names use the
// op's name, including calls in other functions. Returns nullopt if the library has none.
std::optional<proto::GraphDef> RestoreOwnOps(const proto::GraphDef& def,
                                             const OpRegistry& registry);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_OWN_OPS_H_
