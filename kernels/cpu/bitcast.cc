// SPDX-License-Identifier: Apache-2.0
//
// Bitcast on the CPU: copies the bytes unchanged.
#include <cstring>

#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateBitcast(const KernelContext& c) {
  const int64_t bytes = c.output_shape(0).num_elements() * DataTypeSize(c.output_dtype(0));
  KernelPlan plan;
  plan.in_place = {{0, 0}};
  plan.kernel = MakeKernel([bytes](const KernelArgs& args) {
    const auto* from = args.input<std::byte>(0);
    auto* to = args.output<std::byte>(0);
    if (bytes > 0 && from != to) std::memcpy(to, from, bytes);
  });
  return plan;
}

}  // namespace

void RegisterBitcastCpu(KernelRegistry& kernels) {
  kernels.Register("Bitcast", "CPU", CreateBitcast);
}

}  // namespace mirrorflow
