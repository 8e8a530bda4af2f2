// SPDX-License-Identifier: Apache-2.0
//
// The table of contents: one declaration and one line a stem, sorted.
#include "kernels/cpu/all_kernels.h"

namespace mirrorflow {

void RegisterConstantCpu(KernelRegistry& kernels);
void RegisterMatMulCpu(KernelRegistry& kernels);
void RegisterUpdateCpu(KernelRegistry& kernels);
void RegisterVariableCpu(KernelRegistry& kernels);

void RegisterCpuKernels(KernelRegistry& kernels) {
  RegisterConstantCpu(kernels);
  RegisterMatMulCpu(kernels);
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
