// SPDX-License-Identifier: Apache-2.0
//
// What there is to compute on besides the CPU. A build without CUDA links device_info_stub.cc
// instead of device_info.cu; callers need no condition.
#ifndef MIRRORFLOW_KERNELS_CUDA_DEVICE_INFO_H_
#define MIRRORFLOW_KERNELS_CUDA_DEVICE_INFO_H_

#include "absl/status/statusor.h"

namespace mirrorflow {

// Whether this program was built with --config=cuda.
bool BuiltWithCuda();

// The GPUs of this host that this process may use (CUDA_VISIBLE_DEVICES counts); 0 without a driver
// and in a build without CUDA. An error if there is a driver and it does not answer as it should.
absl::StatusOr<int> NumGpus();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_DEVICE_INFO_H_
