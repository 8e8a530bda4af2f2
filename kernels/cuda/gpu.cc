// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gpu.h"

#include <cuda_runtime_api.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/core/status.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/gpu_kernel.h"

namespace mirrorflow {
namespace {

// The lowest compute capability that this toolkit's NVRTC supports (Turing).
constexpr int kMinMajor = 7, kMinMinor = 5;

// Counts the GPUs. Returns the CUDA runtime's error, if any.
cudaError_t Count(int* num_gpus) {
  *num_gpus = 0;
  const cudaError_t error = cudaGetDeviceCount(num_gpus);
  if (error == cudaSuccess) return error;
  cudaGetLastError();  // clears the error; otherwise a later, unrelated call would report it again
  *num_gpus = 0;
  return error;
}

bool IsNone(cudaError_t error) {
  // CUDA also returns cudaErrorInsufficientDriver on a machine without a driver.
  return error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver;
}

absl::StatusOr<int> Attribute(cudaDeviceAttr attribute, int ordinal) {
  int value = 0;
  MF_RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&value, attribute, ordinal));
  return value;
}

absl::Status Describe(int ordinal, GpuInfo* info) {
  cudaDeviceProp properties;
  MF_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, ordinal));
  info->name = properties.name;
  info->uuid = absl::BytesToHexString(
      absl::string_view(properties.uuid.bytes, sizeof properties.uuid.bytes));
  MF_ASSIGN_OR_RETURN(const int major, Attribute(cudaDevAttrComputeCapabilityMajor, ordinal));
  MF_ASSIGN_OR_RETURN(const int minor, Attribute(cudaDevAttrComputeCapabilityMinor, ordinal));
  info->capability = absl::StrCat(major, ".", minor);
  if (major < kMinMajor || (major == kMinMajor && minor < kMinMinor)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the GPU's compute capability is too low; expected at least ", kMinMajor, ".",
                     kMinMinor, ", got ", info->capability));
  }
  MF_RETURN_IF_CUDA_ERROR(cudaSetDevice(ordinal));
  size_t free = 0, all = 0;
  MF_RETURN_IF_CUDA_ERROR(cudaMemGetInfo(&free, &all));
  info->free_bytes = static_cast<int64_t>(free);
  info->memory_bytes = static_cast<int64_t>(all);
  return absl::OkStatus();
}

}  // namespace

bool BuiltWithCuda() { return true; }

absl::StatusOr<int> NumGpus() {
  int num_gpus = 0;
  const cudaError_t error = Count(&num_gpus);
  if (error == cudaSuccess || IsNone(error)) return num_gpus;
  return CudaStatus(error, "cudaGetDeviceCount");
}

std::string WhyNoGpus() {
  int num_gpus = 0;
  const cudaError_t error = Count(&num_gpus);
  if (error == cudaErrorInsufficientDriver) return "no driver, or a driver too old for this build";
  return IsNone(error) || error == cudaSuccess ? "the driver sees no GPU"
                                               : std::string(cudaGetErrorString(error));
}

GpuInfo DescribeGpu(int ordinal) {
  GpuInfo info;
  info.usable = Describe(ordinal, &info);
  return info;
}

absl::Status CheckGpu(int ordinal) {
  MF_ASSIGN_OR_RETURN(const int num_gpus, NumGpus());
  if (num_gpus == 0) return absl::NotFoundError(WhyNoGpus());
  if (ordinal < 0 || ordinal >= num_gpus) {
    return absl::NotFoundError(absl::StrCat("no such GPU; expected an ordinal from 0 to ",
                                            num_gpus - 1, ", got ", ordinal));
  }
  return DescribeGpu(ordinal).usable;
}

absl::StatusOr<std::unique_ptr<Device>> CreateGpu(int ordinal, const GpuOptions& options) {
  MF_RETURN_IF_ERROR(CheckGpu(ordinal));
  return CreateCudaDevice(ordinal, ordinal, options);
}

void RegisterGpuKernels(KernelRegistry& kernels) { RegisterCudaKernels(kernels); }

absl::StatusOr<KernelPlan> GpuElementwise(const KernelContext& c, absl::string_view expression) {
  return MakeElementwise(c, {.text = std::string(expression)});
}

absl::StatusOr<KernelPlan> GpuKernel(const KernelContext& c, absl::string_view body,
                                     const GpuGrid& grid) {
  return MakeCudaKernel(
      c, {{.body = std::string(body), .grid = {.x = grid.blocks, .threads = grid.threads}}},
      {.includes = {"math.cuh"}, .scratch_bytes = grid.scratch_bytes});
}

void* GpuStream(Lane& lane) { return StreamOf(lane); }

}  // namespace mirrorflow
