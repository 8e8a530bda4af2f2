// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_KERNELS_CUDA_DEVICE_CUDA_STATUS_H_
#define MIRRORFLOW_KERNELS_CUDA_DEVICE_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// Returns OK, or the error of `call`: ResourceExhausted if memory ran out, otherwise Internal.
// Clears the runtime's error. A sticky error cannot be cleared, and every later call fails.
absl::Status CudaStatus(cudaError_t error, absl::string_view call);

}  // namespace mirrorflow

// Evaluates a CUDA runtime call to its status, whose message contains the call's text.
#define MF_CUDA_STATUS(call) ::mirrorflow::CudaStatus((call), #call)
// Returns from the function if a CUDA runtime call fails.
#define MF_RETURN_IF_CUDA_ERROR(call) MF_RETURN_IF_ERROR(::mirrorflow::CudaStatus((call), #call))

#endif  // MIRRORFLOW_KERNELS_CUDA_DEVICE_CUDA_STATUS_H_
