// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/variable_handle.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mirrorflow {

const Node& VariableOf(const Output& handle) {
  Output at = handle;
  while (at.node->op().role != OpRole::kVariable && at.node->num_inputs() > 0) {
    const OpDef& op = at.node->op();
    if (op.role == OpRole::kLoop) {
      at = at.node->input(at.index);
    } else if (op.has(kView)) {
      at = at.node->input(0);
    } else {
      break;
    }
  }
  return *at.node;
}

const std::string& VariableName(const Node& variable) {
  const auto shared = variable.attrs().find("shared_name");
  if (shared == variable.attrs().end()) return variable.name();
  const std::string& name = shared->second.get<std::string>();
  return name.empty() ? variable.name() : name;
}

absl::StatusOr<std::string> VariableName(const Output& handle) {
  const Node& node = VariableOf(handle);
  if (node.op().role == OpRole::kVariable) return VariableName(node);
  return absl::InvalidArgumentError(absl::StrCat("handle ", handle.ToString(), " is an output of ",
                                                 OpAndName(node),
                                                 "; expected a variable's handle"));
}

bool TakesVariable(const Node& node, absl::string_view name) {
  return std::any_of(node.inputs().begin(), node.inputs().end(), [&](const Output& in) {
    if (in.dtype() != DT_RESOURCE) return false;
    const absl::StatusOr<std::string> taken = VariableName(in);
    return taken.ok() && *taken == name;
  });
}

}  // namespace mirrorflow
