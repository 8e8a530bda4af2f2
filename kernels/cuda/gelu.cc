// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/elementwise.h"

namespace mirrorflow {
namespace {

// The formula of the op's name, or the one that is called Approximate….
absl::StatusOr<KernelPlan> Create(const KernelContext& c, absl::string_view operands) {
  return MakeElementwise(
      c, {.text = absl::StrCat("op::", c.attr<bool>("approximate") ? "Approximate" : "",
                               c.node().op().name, operands)});
}

absl::StatusOr<KernelPlan> CreateGelu(const KernelContext& c) { return Create(c, "(x0)"); }
absl::StatusOr<KernelPlan> CreateGeluGrad(const KernelContext& c) { return Create(c, "(x0, x1)"); }

}  // namespace

void RegisterGeluCuda(KernelRegistry& kernels) {
  kernels.Register("Gelu", kGpu, CreateGelu);
  kernels.Register("GeluGrad", kGpu, CreateGeluGrad);
}

}  // namespace mirrorflow
