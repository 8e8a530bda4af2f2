// SPDX-License-Identifier: Apache-2.0
//
// Visits the functions of a library that an attribute or a node references.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_REFERENCES_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_REFERENCES_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "framework/proto/graph.pb.h"

namespace mirrorflow {

using VisitFunctionName = absl::FunctionRef<void(const std::string& name)>;

// Visits the functions that an attribute references and, recursively, the functions in the
// attributes of these references.
void VisitFunctions(const proto::AttrValue& attr, VisitFunctionName visit);
// Visits the node's op, which may be a function, and the functions in its attributes.
void VisitFunctions(const proto::NodeDef& node, VisitFunctionName visit);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_REFERENCES_H_
