// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/device_info.h"

namespace mirrorflow {

bool BuiltWithCuda() { return true; }

absl::StatusOr<int> NumGpus() {
  int num_gpus = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_gpus);
  if (error == cudaSuccess) return num_gpus;
  cudaGetLastError();  // Else the next call, about something else, would report it again.
  // The second is also what a machine without any driver answers.
  if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver) return 0;
  return absl::InternalError(absl::StrCat("cudaGetDeviceCount: expected the number of GPUs, got ",
                                          cudaGetErrorName(error), " (", cudaGetErrorString(error),
                                          ")"));
}

}  // namespace mirrorflow
