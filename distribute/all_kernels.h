// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_ALL_KERNELS_H_
#define MIRRORFLOW_DISTRIBUTE_ALL_KERNELS_H_

#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// Returns the kernels of all nodes that a plan can have: those of the ops, and those of the nodes
// that passes insert. Created on the first call; immutable and safe to use from any thread.
const KernelRegistry& AllKernels();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_ALL_KERNELS_H_
