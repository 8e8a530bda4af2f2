// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_KERNELS_CUDA_CUDA_KERNELS_H_
#define MIRRORFLOW_KERNELS_CUDA_CUDA_KERNELS_H_

#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// Registers all GPU kernels, and the factory of their plans' CudaProgram.
void RegisterCudaKernels(KernelRegistry& kernels);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_CUDA_KERNELS_H_
