// SPDX-License-Identifier: Apache-2.0
//
// Which functions of a library a function or a node mentions.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_REFERENCES_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_REFERENCES_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "framework/proto/graph.pb.h"

namespace mirrorflow {

using VisitFunctionName = absl::FunctionRef<void(const std::string& name)>;

// Those in an attribute, those in the attributes of these, and so on.
void VisitFunctions(const proto::AttrValue& attr, VisitFunctionName visit);
// The node's op, which may be a function, and those in its attributes.
void VisitFunctions(const proto::NodeDef& node, VisitFunctionName visit);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_FUNCTION_REFERENCES_H_
