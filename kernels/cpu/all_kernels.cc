// SPDX-License-Identifier: Apache-2.0
//
// The table of contents: one declaration and one line a stem, sorted.
#include "kernels/cpu/all_kernels.h"

namespace mirrorflow {

void RegisterAddNCpu(KernelRegistry& kernels);
void RegisterArgMaxCpu(KernelRegistry& kernels);
void RegisterBiasAddCpu(KernelRegistry& kernels);
void RegisterBinaryCpu(KernelRegistry& kernels);
void RegisterBroadcastGradientCpu(KernelRegistry& kernels);
void RegisterCastCpu(KernelRegistry& kernels);
void RegisterConcatCpu(KernelRegistry& kernels);
void RegisterConstantCpu(KernelRegistry& kernels);
void RegisterConv2DCpu(KernelRegistry& kernels);
void RegisterGatherCpu(KernelRegistry& kernels);
void RegisterIdentityCpu(KernelRegistry& kernels);
void RegisterMatMulCpu(KernelRegistry& kernels);
void RegisterMaxPoolCpu(KernelRegistry& kernels);
void RegisterRandomCpu(KernelRegistry& kernels);
void RegisterReductionCpu(KernelRegistry& kernels);
void RegisterReplicaIndexCpu(KernelRegistry& kernels);
void RegisterReshapeCpu(KernelRegistry& kernels);
void RegisterSelectCpu(KernelRegistry& kernels);
void RegisterShapeOpsCpu(KernelRegistry& kernels);
void RegisterSliceCpu(KernelRegistry& kernels);
void RegisterSoftmaxCpu(KernelRegistry& kernels);
void RegisterSoftmaxXentCpu(KernelRegistry& kernels);
void RegisterStridedSliceCpu(KernelRegistry& kernels);
void RegisterTileCpu(KernelRegistry& kernels);
void RegisterTransposeCpu(KernelRegistry& kernels);
void RegisterUnaryCpu(KernelRegistry& kernels);
void RegisterUnaryGradCpu(KernelRegistry& kernels);
void RegisterUpdateCpu(KernelRegistry& kernels);
void RegisterVariableCpu(KernelRegistry& kernels);

void RegisterCpuKernels(KernelRegistry& kernels) {
  RegisterAddNCpu(kernels);
  RegisterArgMaxCpu(kernels);
  RegisterBiasAddCpu(kernels);
  RegisterBinaryCpu(kernels);
  RegisterBroadcastGradientCpu(kernels);
  RegisterCastCpu(kernels);
  RegisterConcatCpu(kernels);
  RegisterConstantCpu(kernels);
  RegisterConv2DCpu(kernels);
  RegisterGatherCpu(kernels);
  RegisterIdentityCpu(kernels);
  RegisterMatMulCpu(kernels);
  RegisterMaxPoolCpu(kernels);
  RegisterRandomCpu(kernels);
  RegisterReductionCpu(kernels);
  RegisterReplicaIndexCpu(kernels);
  RegisterReshapeCpu(kernels);
  RegisterSelectCpu(kernels);
  RegisterShapeOpsCpu(kernels);
  RegisterSliceCpu(kernels);
  RegisterSoftmaxCpu(kernels);
  RegisterSoftmaxXentCpu(kernels);
  RegisterStridedSliceCpu(kernels);
  RegisterTileCpu(kernels);
  RegisterTransposeCpu(kernels);
  RegisterUnaryCpu(kernels);
  RegisterUnaryGradCpu(kernels);
  RegisterUpdateCpu(kernels);
  RegisterVariableCpu(kernels);
}

const KernelRegistry& CpuKernels() {
  static const KernelRegistry* const registry = [] {
    auto* kernels = new KernelRegistry();
    RegisterCpuKernels(*kernels);
    return kernels;
  }();
  return *registry;
}

}  // namespace mirrorflow
