// SPDX-License-Identifier: Apache-2.0
//
// The table of contents: one declaration and one line a stem, sorted.
#include "kernels/cpu/all_kernels.h"

namespace mirrorflow {

void RegisterConcatCpu(KernelRegistry& kernels);
void RegisterConstantCpu(KernelRegistry& kernels);
void RegisterGatherCpu(KernelRegistry& kernels);
void RegisterMatMulCpu(KernelRegistry& kernels);
void RegisterReshapeCpu(KernelRegistry& kernels);
void RegisterShapeOpsCpu(KernelRegistry& kernels);
void RegisterSliceCpu(KernelRegistry& kernels);
void RegisterStridedSliceCpu(KernelRegistry& kernels);
void RegisterTileCpu(KernelRegistry& kernels);
void RegisterTransposeCpu(KernelRegistry& kernels);
void RegisterUpdateCpu(KernelRegistry& kernels);
void RegisterVariableCpu(KernelRegistry& kernels);

void RegisterCpuKernels(KernelRegistry& kernels) {
  RegisterConcatCpu(kernels);
  RegisterConstantCpu(kernels);
  RegisterGatherCpu(kernels);
  RegisterMatMulCpu(kernels);
  RegisterReshapeCpu(kernels);
  RegisterShapeOpsCpu(kernels);
  RegisterSliceCpu(kernels);
  RegisterStridedSliceCpu(kernels);
  RegisterTileCpu(kernels);
  RegisterTransposeCpu(kernels);
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
