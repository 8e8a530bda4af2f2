// SPDX-License-Identifier: Apache-2.0
//
// The CPU kernels with random delays, for tests of a replica's threads: if one of them does not
// wait for another where it must, results change or a step fails.
#ifndef MIRRORFLOW_TESTS_SUPPORT_DELAYED_KERNELS_H_
#define MIRRORFLOW_TESTS_SUPPORT_DELAYED_KERNELS_H_

#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// Returns the library's CPU kernels, of which every fourth run, on average, begins up to 200 µs
// late.
const KernelRegistry& DelayedKernels();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_DELAYED_KERNELS_H_
