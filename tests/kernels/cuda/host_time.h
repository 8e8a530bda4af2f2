// SPDX-License-Identifier: Apache-2.0
//
// Measures how long the host is busy with a step on a GPU: from StartHostTime() to its first query
// whether the GPU is done. It replaces cudaEventQuery, for programs that link CUDA itself.
#ifndef MIRRORFLOW_TESTS_KERNELS_CUDA_HOST_TIME_H_
#define MIRRORFLOW_TESTS_KERNELS_CUDA_HOST_TIME_H_

#include <cstdint>

namespace mirrorflow {

// Starts the clock, which the next cudaEventQuery stops.
void StartHostTime();
// Returns the nanoseconds from StartHostTime to that query, or 0 if there was none.
int64_t HostTimeNs();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_KERNELS_CUDA_HOST_TIME_H_
