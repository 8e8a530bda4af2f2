// SPDX-License-Identifier: Apache-2.0
#include "distribute/all_kernels.h"

#include "distribute/collective/collective_ops.h"
#include "framework/core/status.h"
#include "kernels/cpu/all_kernels.h"
#include "kernels/cuda/gpu.h"

namespace mirrorflow {

const KernelRegistry& AllKernels() {
  static const KernelRegistry* const registry = [] {
    auto* kernels = new KernelRegistry();
    RegisterCpuKernels(*kernels);
    RegisterCollectiveKernelsCpu(*kernels);
    RegisterGpuKernels(*kernels);
    MF_CHECK(kernels->Check().ok());
    return kernels;
  }();
  return *registry;
}

}  // namespace mirrorflow
