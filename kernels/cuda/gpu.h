// SPDX-License-Identifier: Apache-2.0
//
// GPUs for code that does not depend on CUDA: describes them, creates devices on them and registers
// their kernels. A build without CUDA links gpu_stub.cc in place of gpu.cc, so that callers need no
// condition.
#ifndef MIRRORFLOW_KERNELS_CUDA_GPU_H_
#define MIRRORFLOW_KERNELS_CUDA_GPU_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/runtime/device.h"
#include "framework/runtime/kernel_registry.h"
#include "kernels/cuda/device/gpu_options.h"

namespace mirrorflow {

// Whether this program was built with --config=cuda.
bool BuiltWithCuda();

// The number of GPUs that this process may use (CUDA_VISIBLE_DEVICES counts); 0 without a driver
// and in a build without CUDA. An error if there is a driver that does not answer as it should.
absl::StatusOr<int> NumGpus();
// The reason why NumGpus is 0, such as `the driver sees no GPU`.
std::string WhyNoGpus();

struct GpuInfo {
  std::string name;  // `NVIDIA H200`
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;
  std::string capability;  // `9.0`
  std::string uuid;        // in hexadecimal; no other GPU has the same, on any host
  absl::Status usable;     // OK, or why no device can be created on it
};
// Describes GPU `ordinal`. Requires 0 <= ordinal < NumGpus().
GpuInfo DescribeGpu(int ordinal);

// OK if a device `GPU:ordinal` can be created. NotFound if there is no such GPU, FailedPrecondition
// if it is too old, Unimplemented in a build without CUDA.
absl::Status CheckGpu(int ordinal);
// Creates that device, or returns the error of CheckGpu.
absl::StatusOr<std::unique_ptr<Device>> CreateGpu(int ordinal, const GpuOptions& options = {});

// Registers the kernels for GPUs; none in a build without CUDA.
void RegisterGpuKernels(KernelRegistry& kernels);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_GPU_H_
