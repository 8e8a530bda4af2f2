// SPDX-License-Identifier: Apache-2.0
//
// Optimizer updates: the formula of each is the struct of its name in code/update.cuh.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "framework/core/status.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_kernel.h"

namespace mirrorflow {
namespace {

// The one choice that an update has, if any, as a second argument of its template.
std::string ChoiceText(const KernelContext& c) {
  for (const char* name : {"use_nesterov", "update_slots"}) {
    if (c.node().has_attr(name)) return c.attr<bool>(name) ? ", true" : ", false";
  }
  return "";
}

absl::StatusOr<KernelPlan> CreateUpdate(const KernelContext& c) {
  const Node& node = c.node();
  const int gradient = node.input_index(node.op().update_gradient);
  MF_ASSIGN_OR_RETURN(const ArgRange gates, FindArg(node.op().inputs, node.attrs(), "predicate"));
  std::vector<std::string> variables, scalars;
  for (int i = 0; i < gates.first; ++i) {
    if (i == gradient) continue;
    if (node.input(i).dtype() == DT_RESOURCE) {
      variables.push_back(absl::StrCat("a", i));
    } else {
      scalars.push_back(absl::StrCat("Load(*a", i, ")"));
    }
  }
  std::string body;
  // All threads find a gate shut, or none: nothing waits for the host.
  for (int i = gates.first; i < gates.last; ++i) {
    absl::StrAppend(&body, "  if (!*a", i, ") return;\n");
  }
  const int64_t n = c.input_shape(gradient).num_elements();
  absl::StrAppend(&body, "  const update::", absl::StripPrefix(node.op().name, "ResourceApply"),
                  "<", CudaValueType(c.attr<DataType>("T")), ChoiceText(c), "> formula = {",
                  absl::StrJoin(scalars, ", "), "};\n  update::Update<", n, ">(formula, a",
                  gradient, ", ", absl::StrJoin(variables, ", "), ");");
  return MakeCudaKernel(c, {{.body = std::move(body), .grid = ElementwiseGrid(n)}},
                        {.includes = {"update.cuh"}});
}

}  // namespace

void RegisterUpdateCuda(KernelRegistry& kernels) {
  for (const char* op : {"Adagrad", "AdagradV2", "Adam", "GradientDescent", "KerasMomentum",
                         "Momentum", "RMSProp"}) {
    kernels.Register(absl::StrCat("ResourceApply", op), kGpu, CreateUpdate);
  }
}

}  // namespace mirrorflow
