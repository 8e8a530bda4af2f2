// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_KERNELS_CPU_ALL_KERNELS_H_
#define MIRRORFLOW_KERNELS_CPU_ALL_KERNELS_H_

#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// Adds all CPU kernels to `kernels`.
void RegisterCpuKernels(KernelRegistry& kernels);
// Returns a registry that holds only the CPU kernels, created on the first call.
const KernelRegistry& CpuKernels();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_ALL_KERNELS_H_
