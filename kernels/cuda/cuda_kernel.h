// SPDX-License-Identifier: Apache-2.0
//
// Kernels compiled from hand-written code. A kernel runs its stages, which are functions of the
// plan's CudaProgram, one after the other. All operands are aligned to kBufferAlignment: plans
// align them, and feeds are copied to the GPU. All stages use the same names for the operands:
//   a0, a1, …   the inputs, `const T*` in their dtypes, or `T*` for a variable's handle; static
//               inputs have no name, because their values are known when the code is generated
//   z0, z1, …   the outputs, `T*`
//   scratch     `char*`, aligned to 64 bytes, if the kernel requests scratch memory
//   params      `const StepParams*`
//   fail(v)     reports to the host that value v is invalid; the kernel continues
#ifndef MIRRORFLOW_KERNELS_CUDA_CUDA_KERNEL_H_
#define MIRRORFLOW_KERNELS_CUDA_CUDA_KERNEL_H_

#include <string>
#include <utility>
#include <vector>

#include "framework/runtime/kernel_registry.h"
#include "kernels/cuda/libraries/code_text.h"
#include "kernels/cuda/libraries/program.h"

namespace mirrorflow {

struct CudaStage {
  std::string body;
  CudaGrid grid;
};

struct CudaKernelOptions {
  std::vector<std::string> includes = {};  // files of kernels/cuda/code: "math.cuh"
  int64_t scratch_bytes = 0;
  std::vector<std::pair<int, int>> in_place = {};
  // The error message if the code calls fail; the value is appended. For example: `label out of
  // range; expected 0 to 9, got`. Empty if the code never calls fail.
  std::string error = {};
};

// Makes a kernel that runs `stages`. Requires that the context has a CudaProgram. Omits stages
// with no blocks.
KernelPlan MakeCudaKernel(const KernelContext& c, std::vector<CudaStage> stages,
                          CudaKernelOptions options = {});

// Returns the dtype of input i, or of the variable if the input is a handle.
DataType InputDataType(const KernelContext& c, int i);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_CUDA_KERNEL_H_
