// SPDX-License-Identifier: Apache-2.0
//
// GPUs, for code that need not know what CUDA is: which there are, one as a Device, its kernels. A
// build without CUDA links gpu_stub.cc in place of gpu.cc; callers need no condition.
#ifndef MIRRORFLOW_KERNELS_CUDA_GPU_H_
#define MIRRORFLOW_KERNELS_CUDA_GPU_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/runtime/device.h"
#include "framework/runtime/kernel_registry.h"
#include "kernels/cuda/gpu_options.h"

namespace mirrorflow {

// Whether this program was built with --config=cuda.
bool BuiltWithCuda();

// The GPUs of this host that this process may use (CUDA_VISIBLE_DEVICES counts); 0 without a driver
// and in a build without CUDA. An error if there is a driver and it does not answer as it should.
absl::StatusOr<int> NumGpus();
// Why NumGpus is 0: `this build is without CUDA`, `no driver`, `the driver sees no GPU`.
std::string WhyNoGpus();

struct GpuInfo {
  std::string name;  // `NVIDIA H200`
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;
  std::string capability;  // `9.0`
  absl::Status usable;     // what is in the way of a device on it
};
// Of GPU `ordinal`. Requires 0 <= ordinal < NumGpus().
GpuInfo DescribeGpu(int ordinal);

// Whether there can be a device `GPU:ordinal`: NotFound if there is no such GPU, FailedPrecondition
// if it is too old, Unimplemented in a build without CUDA.
absl::Status CheckGpu(int ordinal);
// That device, or the error of CheckGpu.
absl::StatusOr<std::unique_ptr<Device>> CreateGpu(int ordinal, const GpuOptions& options = {});

// Adds the kernels for GPUs; none in a build without CUDA.
void RegisterGpuKernels(KernelRegistry& kernels);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_GPU_H_
