// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/cuda_status.h"

#include "absl/strings/str_cat.h"

namespace mirrorflow {

absl::Status CudaStatus(cudaError_t error, absl::string_view call) {
  if (error == cudaSuccess) [[likely]]
    return absl::OkStatus();
  cudaGetLastError();  // clears the error; otherwise a later, unrelated call would report it again
  const std::string message =
      absl::StrCat(call, ": ", cudaGetErrorName(error), " (", cudaGetErrorString(error), ")");
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(message)
                                            : absl::InternalError(message);
}

}  // namespace mirrorflow
