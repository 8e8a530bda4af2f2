// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/check_gradients.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {

absl::Status CheckGradients(const Graph& graph, absl::Span<const GradientAndVariable> gradients,
                            const Output& gate) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    const std::string where = absl::StrCat("apply_gradients, pair ", i);
    MF_RETURN_IF_ERROR(Annotate(graph.CheckOwns(gradients[i].gradient), where));
    MF_RETURN_IF_ERROR(Annotate(graph.CheckOwns(gradients[i].variable), where));
    if (gradients[i].variable.dtype() == DT_RESOURCE) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": '", gradients[i].variable.ToString(),
        "' is not a variable's handle; expected Variable::handle, got a value of dtype ",
        DataTypeName(gradients[i].variable.dtype())));
  }
  if (!gate.valid()) return absl::OkStatus();
  return Annotate(graph.CheckOwns(gate), "apply_gradients, gate");
}

}  // namespace mirrorflow
