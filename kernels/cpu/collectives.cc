// SPDX-License-Identifier: Apache-2.0
//
// NumReplicas on one replica, for EvaluateNode only: in a plan it is a constant. Collectives and
// views need no kernel.
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateOne(const KernelContext&) {
  return ConstantKernel({Tensor::Scalar<int32_t>(1)});
}

}  // namespace

void RegisterCollectivesCpu(KernelRegistry& kernels) {
  kernels.Register("NumReplicas", "CPU", CreateOne);
}

}  // namespace mirrorflow
