// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cpu_and_gpu_kernels.h"

#include "kernels/cpu/all_kernels.h"
#include "kernels/cuda/cuda_kernels.h"

namespace mirrorflow {

const KernelRegistry& CpuAndGpuKernels() {
  static const KernelRegistry* const registry = [] {
    auto* kernels = new KernelRegistry();
    RegisterCpuKernels(*kernels);
    RegisterCudaKernels(*kernels);
    return kernels;
  }();
  return *registry;
}

}  // namespace mirrorflow
