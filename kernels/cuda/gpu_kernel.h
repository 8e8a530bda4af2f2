// SPDX-License-Identifier: Apache-2.0
//
// GPU kernels that a program registers for its own ops. The CUDA C++ is passed as text, which NVRTC
// compiles with the other kernels of the plan, so the program itself needs no CUDA:
//
//   extensions.kernels().Register("Swish", "GPU", [](const KernelContext& c) {
//     return GpuElementwise(c, "x0 / (1 + exp(-x0))");
//   });
//
// In builds without CUDA, no plan is ever created for a GPU, and GpuElementwise and GpuKernel
// return Unimplemented.
#ifndef MIRRORFLOW_KERNELS_CUDA_GPU_KERNEL_H_
#define MIRRORFLOW_KERNELS_CUDA_GPU_KERNEL_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/runtime/kernel.h"

namespace mirrorflow {

// Makes a kernel that sets each element of output 0 to `expression`, where x0, x1, … are the
// corresponding elements of the inputs. Inputs broadcast to the shape of the output. Elements of
// half and bfloat16 are computed as float. The output may overwrite an input.
absl::StatusOr<KernelPlan> GpuElementwise(const KernelContext& c, absl::string_view expression);

struct GpuGrid {
  unsigned int blocks = 1;
  unsigned int threads = 256;  // per block
  int64_t scratch_bytes = 0;
};
// Makes a kernel that runs `body`, the body of a `__global__` function. a0, a1, … point to the
// inputs (`const float*` for a float), z0, z1, … to the outputs, and `scratch` to the scratch bytes
// that the grid requests. The caller writes shapes into the text as constants. A grid with no
// blocks runs nothing.
absl::StatusOr<KernelPlan> GpuKernel(const KernelContext& c, absl::string_view body,
                                     const GpuGrid& grid);

// Returns the cudaStream_t of a GPU lane, for kernels (MakeKernel) that call a library or launch
// code compiled by nvcc. Such a kernel must only enqueue work on this stream, because a later step
// may replay the work without calling the kernel again.
void* GpuStream(Lane& lane);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_GPU_KERNEL_H_
