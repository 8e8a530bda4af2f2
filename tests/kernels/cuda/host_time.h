// SPDX-License-Identifier: Apache-2.0
//
// Measures how long a GPU step keeps the host busy: from StartHostTime() until the host first
// queries whether the GPU is done. Replaces cudaEventQuery in programs that link the real CUDA
// runtime.
#ifndef MIRRORFLOW_TESTS_KERNELS_CUDA_HOST_TIME_H_
#define MIRRORFLOW_TESTS_KERNELS_CUDA_HOST_TIME_H_

#include <cstdint>

namespace mirrorflow {

// Starts the clock. The next cudaEventQuery stops it.
void StartHostTime();
// Returns the nanoseconds from StartHostTime to that query, or 0 if no query has happened.
int64_t HostTimeNs();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_KERNELS_CUDA_HOST_TIME_H_
