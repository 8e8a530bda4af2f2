// SPDX-License-Identifier: Apache-2.0
//
// Const on the CPU, for EvaluateNode only: a plan keeps constants in a memory region.
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateConst(const KernelContext& c) {
  return ConstantKernel({c.attr<Tensor>("value")});
}

}  // namespace

void RegisterConstantCpu(KernelRegistry& kernels) { kernels.Register("Const", "CPU", CreateConst); }

}  // namespace mirrorflow
