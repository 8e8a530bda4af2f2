// SPDX-License-Identifier: Apache-2.0
//
// Trees of element-wise ops. The value of each node becomes a const variable in the code.
#include "absl/strings/str_cat.h"
#include "framework/core/reduced_float.h"
#include "framework/core/status.h"
#include "framework/graph/text_form.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/elementwise.h"
#include "ops/fused_ops.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

// The body's placeholders have the same names as the input values in the code.
absl::StatusOr<KernelPlan> CreateFusedElementwise(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const Graph body, ParseGraph(c.attr<std::string>(ops::kBodyAttr), AllOps()));
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(body));
  std::string statements;
  for (const Node* node : order) {
    if (node->op().role == OpRole::kPlaceholder) continue;
    std::vector<std::string> operands;
    for (const Output& input : node->inputs()) operands.push_back(input.node->name());
    std::string value = FormulaOf(*node, operands).text;
    // Rounds as if the value had been stored in memory.
    const DataType dtype = node->output_dtype(0);
    if (IsReducedFloat(dtype))
      value = absl::StrCat("Load(Store<", CudaType(dtype), ">(", value, "))");
    absl::StrAppend(&statements, "    const auto ", node->name(), " = ", value, ";\n");
  }
  return MakeElementwise(c, {.text = order.back()->name(), .checks = std::move(statements)});
}

}  // namespace

void RegisterFusedElementwiseCuda(KernelRegistry& kernels) {
  kernels.Register(ops::kFusedElementwise, kGpu, CreateFusedElementwise);
}

}  // namespace mirrorflow
