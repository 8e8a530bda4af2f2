// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/error_list.h"
#include "train/safetensors.h"

namespace mirrorflow {

absl::Status SaveVariables(Session& session, absl::string_view path) {
  Safetensors contents;
  for (const VariableInfo& variable : session.layout().variables()) {
    if (!session.IsInitialized(variable.name)) continue;
    MF_ASSIGN_OR_RETURN(Tensor value, session.ReadVariable(variable.name));
    contents.tensors.emplace(variable.name, std::move(value));
  }
  return WriteSafetensors(path, contents);
}

absl::Status LoadVariables(absl::string_view path, Session& session) {
  MF_ASSIGN_OR_RETURN(const Safetensors contents, ReadSafetensors(path));
  const VariableLayout& layout = session.layout();
  ErrorList differences;
  int found = 0;
  for (const auto& [name, tensor] : contents.tensors) {
    const int v = layout.Find(name);
    if (v < 0) continue;
    ++found;
    const VariableInfo& variable = layout.variables()[v];
    if (variable.dtype == tensor.dtype() && variable.shape == tensor.shape()) continue;
    differences.Add(absl::StrCat("variable '", name, "': expected ", DataTypeName(variable.dtype),
                                 variable.shape.ToString(), ", got ", DataTypeName(tensor.dtype()),
                                 tensor.shape().ToString()));
  }
  if (!differences.empty()) return Annotate(differences.ToStatus(), path);
  if (found == 0 && !contents.tensors.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": none of its ", contents.tensors.size(),
        " tensors is called after a variable of the graph; expected names such as '",
        layout.variables().empty() ? "(the graph has no variables)" : layout.variables()[0].name,
        "', got '", contents.tensors.begin()->first, "'"));
  }
  for (const auto& [name, tensor] : contents.tensors) {
    if (layout.Find(name) >= 0) MF_RETURN_IF_ERROR(session.AssignVariable(name, tensor));
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
