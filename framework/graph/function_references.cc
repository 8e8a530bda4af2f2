// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/function_references.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

void VisitAttr(const proto::AttrValue& attr, VisitFunctionName visit);

void VisitReference(const proto::NameAttrList& function, VisitFunctionName visit) {
  visit(function.name());
  for (const auto& [name, attr] : function.attr()) VisitAttr(attr, visit);
}

void VisitAttr(const proto::AttrValue& attr, VisitFunctionName visit) {
  if (attr.has_func()) VisitReference(attr.func(), visit);
  for (const proto::NameAttrList& function : attr.list().func()) VisitReference(function, visit);
}

}  // namespace

void VisitFunctions(const proto::NodeDef& node, VisitFunctionName visit) {
  visit(node.op());
  for (const auto& [name, attr] : node.attr()) VisitAttr(attr, visit);
}

absl::StatusOr<std::string> NameInBody(const Output& output, absl::Span<const Output> args) {
  if (absl::c_linear_search(args, output)) return output.node->name();
  const OpDef& op = output.node->op();
  for (const ArgDef& arg : op.outputs) {
    MF_ASSIGN_OR_RETURN(const ArgRange range, FindArg(op.outputs, output.node->attrs(), arg.name));
    if (output.index >= range.last) continue;
    return absl::StrCat(output.node->name(), ":", arg.name, ":", output.index - range.first);
  }
  return absl::InternalError(absl::StrCat(output.ToString(), " is not an output of ", op.name));
}

}  // namespace mirrorflow
