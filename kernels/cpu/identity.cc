// SPDX-License-Identifier: Apache-2.0
//
// Identity and related ops on the CPU. All except IdentityN are for EvaluateNode only: in a plan
// they are views.
#include <cstring>
#include <utility>
#include <vector>

#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateCopy(const KernelContext& c) {
  const int64_t bytes = c.output_shape(0).num_elements() * DataTypeSize(c.output_dtype(0));
  return KernelPlan{.kernel = MakeKernel([bytes](const KernelArgs& args) {
                      if (bytes > 0)
                        std::memmove(args.output<std::byte>(0), args.input<std::byte>(0), bytes);
                    }),
                    .in_place = {{0, 0}}};
}

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
  for (const char* op :
       {"Identity", "StopGradient", "Snapshot", "PreventGradient", "EnsureShape"}) {
    kernels.Register(op, "CPU", CreateCopy);
  }
  kernels.Register("IdentityN", "CPU", CreateIdentityN);
}

}  // namespace mirrorflow
