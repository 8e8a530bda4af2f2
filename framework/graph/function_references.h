// SPDX-License-Identifier: Apache-2.0
//
// The functions of a library: which ones a node references, and how their bodies name values.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_REFERENCES_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_REFERENCES_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "framework/graph/graph.h"
#include "framework/proto/graph.pb.h"

namespace mirrorflow {

using VisitFunctionName = absl::FunctionRef<void(const std::string& name)>;

// Visits the node's op, which may be a function, the functions in its attributes and, recursively,
// those in the attributes of these references.
void VisitFunctions(const proto::NodeDef& node, VisitFunctionName visit);

// Returns the name of `output` in a function body: `node:output:index`, or the argument's name if
// it is one of `args`.
absl::StatusOr<std::string> NameInBody(const Output& output, absl::Span<const Output> args);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_REFERENCES_H_
