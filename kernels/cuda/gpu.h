// SPDX-License-Identifier: Apache-2.0
//
// The interface to GPUs for code that does not depend on CUDA: describes GPUs, creates devices on
// them and registers their kernels. A build without CUDA links gpu_stub.cc instead of gpu.cc, so
// callers need no conditional code.
#ifndef MIRRORFLOW_KERNELS_CUDA_GPU_H_
#define MIRRORFLOW_KERNELS_CUDA_GPU_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "framework/runtime/device.h"
#include "framework/runtime/kernel_registry.h"
#include "kernels/cuda/device/gpu_options.h"

namespace mirrorflow {

// Returns whether this program was built with --config=cuda.
bool BuiltWithCuda();

// Returns how many GPUs this process may use; CUDA_VISIBLE_DEVICES can limit the number. Returns 0
// without a driver or in a build without CUDA, and CUDA's error if it cannot count the GPUs.
absl::StatusOr<int> NumGpus();
// Returns why NumGpus() is 0, such as `the driver sees no GPU`.
std::string WhyNoGpus();

struct GpuInfo {
  std::string name;  // `NVIDIA H200`
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;
  std::string capability;  // `9.0`
  std::string uuid;        // in hexadecimal; unique across hosts
  absl::Status usable;     // OK, or why no device can be created on this GPU
};
// Describes GPU `ordinal`. Requires 0 <= ordinal < NumGpus().
GpuInfo DescribeGpu(int ordinal);

// Returns OK if a device `GPU:ordinal` can be created. Returns NotFound if that GPU does not exist,
// FailedPrecondition if it is too old, and Unimplemented in a build without CUDA.
absl::Status CheckGpu(int ordinal);
// Creates the device `GPU:ordinal`, or returns CheckGpu's error.
absl::StatusOr<std::unique_ptr<Device>> CreateGpu(int ordinal, const GpuOptions& options = {});

// Registers the GPU kernels. Does nothing in a build without CUDA.
void RegisterGpuKernels(KernelRegistry& kernels);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_GPU_H_
