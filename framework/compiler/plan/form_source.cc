// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/form_source.h"

namespace mirrorflow {

FormSources::FormSources(const PlanState& s) : s_(s) {
  if (s.layout == nullptr) return;
  written_.resize(s.layout->variables().size());
  for (const Node* node : s.graph.Nodes()) {
    if (node->op().role != OpRole::kWrite) continue;
    for (const Output& in : node->inputs()) {
      if (in.dtype() != DT_RESOURCE) continue;
      if (const int v = s.layout->FindHandle(in); v >= 0) written_[v] = true;
    }
  }
}

std::optional<FormSource> FormSources::Find(Output value) const {
  // Only host memory can hold forms, and a body's operands are its arguments.
  if (s_.is_body || !s_.traits.host_memory) return std::nullopt;
  while (Computes(value.node->op()) && value.node->op().has(kView)) value = value.node->input(0);
  const OpRole role = value.node->op().role;
  if (role == OpRole::kConstant) return FormSource{.constant = value.node};
  if (role != OpRole::kRead || value.node->has_attr(kCopyAttr)) return std::nullopt;
  const int v = s_.layout->FindHandle(value.node->input(0));
  if (v < 0 || written_[v]) return std::nullopt;
  return FormSource{.variable = v};
}

}  // namespace mirrorflow
