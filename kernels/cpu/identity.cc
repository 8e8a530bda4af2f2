// SPDX-License-Identifier: Apache-2.0
//
// IdentityN on the CPU. Identity and related ops are views, which need no kernel.
#include <cstring>
#include <utility>
#include <vector>

#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateIdentityN(const KernelContext& c) {
  KernelPlan plan;
  std::vector<int64_t> bytes;
  for (int i = 0; i < c.node().num_outputs(); ++i) {
    bytes.push_back(c.output_shape(i).num_elements() * DataTypeSize(c.output_dtype(i)));
    plan.in_place.push_back({i, i});
  }
  plan.kernel = MakeKernel([bytes = std::move(bytes)](const KernelArgs& args) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      const int k = static_cast<int>(i);
      if (bytes[i] > 0) {
        std::memmove(args.output<std::byte>(k), args.input<std::byte>(k), bytes[i]);
      }
    }
  });
  return plan;
}

}  // namespace

void RegisterIdentityCpu(KernelRegistry& kernels) {
  kernels.Register("IdentityN", "CPU", CreateIdentityN);
}

}  // namespace mirrorflow
