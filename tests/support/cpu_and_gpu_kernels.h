// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_CPU_AND_GPU_KERNELS_H_
#define MIRRORFLOW_TESTS_SUPPORT_CPU_AND_GPU_KERNELS_H_

#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// Returns a registry with both the CPU and the GPU kernels, for tests that compare them.
const KernelRegistry& CpuAndGpuKernels();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_CPU_AND_GPU_KERNELS_H_
