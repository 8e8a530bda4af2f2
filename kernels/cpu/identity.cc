// SPDX-License-Identifier: Apache-2.0
//
// Identity and StopGradient on the CPU: for whoever evaluates nodes one by one; in a plan they are
// views.
#include <cstring>

#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateCopy(const KernelContext& c) {
  const int64_t bytes = c.output_shape(0).num_elements() * DataTypeSize(c.output_dtype(0));
  return KernelPlan{.kernel = MakeKernel([bytes](const KernelArgs& args, Lane&) {
                      if (bytes > 0)
                        std::memmove(args.output<std::byte>(0), args.input<std::byte>(0), bytes);
                      return absl::OkStatus();
                    }),
                    .in_place = {{0, 0}}};
}

}  // namespace

void RegisterIdentityCpu(KernelRegistry& kernels) {
  kernels.Register("Identity", "CPU", CreateCopy);
  kernels.Register("StopGradient", "CPU", CreateCopy);
}

}  // namespace mirrorflow
