// SPDX-License-Identifier: Apache-2.0
//
// How long the host is busy with a step on a GPU: until it first asks whether the GPU is done. For
// programs that link CUDA itself; takes the place of its cudaEventQuery.
#ifndef MIRRORFLOW_TESTS_KERNELS_CUDA_HOST_TIME_H_
#define MIRRORFLOW_TESTS_KERNELS_CUDA_HOST_TIME_H_

#include <cstdint>

namespace mirrorflow {

// From now on the next question is waited for.
void StartHostTime();
// Nanoseconds from StartHostTime to that question; 0 if there was none.
int64_t HostTimeNs();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_KERNELS_CUDA_HOST_TIME_H_
