// SPDX-License-Identifier: Apache-2.0
//
// Const on the CPU: for whoever evaluates nodes one by one; a plan keeps constants in a region.
#include <cstring>

#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateConst(const KernelContext& c) {
  return KernelPlan{
      .kernel = MakeKernel([value = c.attr<Tensor>("value")](const KernelArgs& args, Lane&) {
        if (value.bytes() > 0) std::memcpy(args.output<std::byte>(0), value.raw(), value.bytes());
        return absl::OkStatus();
      })};
}

}  // namespace

void RegisterConstantCpu(KernelRegistry& kernels) { kernels.Register("Const", "CPU", CreateConst); }

}  // namespace mirrorflow
