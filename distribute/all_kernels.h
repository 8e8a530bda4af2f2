// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_ALL_KERNELS_H_
#define MIRRORFLOW_DISTRIBUTE_ALL_KERNELS_H_

#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// The kernels of all nodes that a plan can have: those of the ops, and those of what the passes
// insert. Made at the first call, immutable, safe from any thread.
const KernelRegistry& AllKernels();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_ALL_KERNELS_H_
