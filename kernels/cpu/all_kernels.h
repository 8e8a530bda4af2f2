// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_KERNELS_CPU_ALL_KERNELS_H_
#define MIRRORFLOW_KERNELS_CPU_ALL_KERNELS_H_

#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// Adds every CPU kernel to `kernels`.
void RegisterCpuKernels(KernelRegistry& kernels);
// Returns a registry of only these kernels, created at the first call.
const KernelRegistry& CpuKernels();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_ALL_KERNELS_H_
