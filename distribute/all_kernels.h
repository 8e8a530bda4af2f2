// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_ALL_KERNELS_H_
#define MIRRORFLOW_DISTRIBUTE_ALL_KERNELS_H_

#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// Returns the kernels for all nodes that a plan can contain: ops and nodes that passes insert.
// Created on the first call; immutable and thread-safe.
const KernelRegistry& AllKernels();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_ALL_KERNELS_H_
