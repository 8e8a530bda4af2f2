// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/elementwise.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateReplicaIndex(const KernelContext& c) {
  return MakeIndexed(c, "static_cast<int>(params->replica)");
}

}  // namespace

void RegisterReplicaIndexCuda(KernelRegistry& kernels) {
  kernels.Register("ReplicaIndex", kGpu, CreateReplicaIndex);
}

}  // namespace mirrorflow
