// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/gpu_kernel.h"

namespace mirrorflow {

bool BuiltWithCuda() { return false; }
absl::StatusOr<int> NumGpus() { return 0; }
std::string WhyNoGpus() { return "this program was built without CUDA (build with --config=cuda)"; }
GpuInfo DescribeGpu(int) { return {}; }
absl::Status CheckGpu(int) { return absl::UnimplementedError(WhyNoGpus()); }
absl::StatusOr<std::unique_ptr<Device>> CreateGpu(int ordinal, const GpuOptions&) {
  return CheckGpu(ordinal);
}
void RegisterGpuKernels(KernelRegistry&) {}

absl::StatusOr<KernelPlan> GpuElementwise(const KernelContext&, absl::string_view) {
  return absl::UnimplementedError(WhyNoGpus());
}
absl::StatusOr<KernelPlan> GpuKernel(const KernelContext&, absl::string_view, const GpuGrid&) {
  return absl::UnimplementedError(WhyNoGpus());
}
void* GpuStream(Lane&) { return nullptr; }

}  // namespace mirrorflow
