// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/function_references.h"

namespace mirrorflow {
namespace {

void VisitReference(const proto::NameAttrList& function, VisitFunctionName visit) {
  visit(function.name());
  for (const auto& [name, attr] : function.attr()) VisitFunctions(attr, visit);
}

}  // namespace

void VisitFunctions(const proto::AttrValue& attr, VisitFunctionName visit) {
  if (attr.has_func()) VisitReference(attr.func(), visit);
  for (const proto::NameAttrList& function : attr.list().func()) VisitReference(function, visit);
}

void VisitFunctions(const proto::NodeDef& node, VisitFunctionName visit) {
  visit(node.op());
  for (const auto& [name, attr] : node.attr()) VisitFunctions(attr, visit);
}

}  // namespace mirrorflow
