// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_KERNELS_CPU_ALL_KERNELS_H_
#define MIRRORFLOW_KERNELS_CPU_ALL_KERNELS_H_

#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// Adds every CPU kernel to `kernels`.
void RegisterCpuKernels(KernelRegistry& kernels);
// A registry of just those, made at the first call.
const KernelRegistry& CpuKernels();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_ALL_KERNELS_H_
