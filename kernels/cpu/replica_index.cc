// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateReplicaIndex(const KernelContext&) {
  return KernelPlan{.kernel = MakeKernel([](const KernelArgs& args) {
                      *args.output<int32_t>(0) = static_cast<int32_t>(args.params().replica);
                    })};
}

}  // namespace

void RegisterReplicaIndexCpu(KernelRegistry& kernels) {
  kernels.Register("ReplicaIndex", "CPU", CreateReplicaIndex);
}

}  // namespace mirrorflow
