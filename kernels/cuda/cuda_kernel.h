// SPDX-License-Identifier: Apache-2.0
//
// A kernel of our own code: functions of the plan's CudaProgram that run one after the other. All
// of them see the node's operands under the same names:
//   a0, a1, …   the inputs, `const T*` in their dtypes; of a variable's handle `T*`; static inputs
//               have none (their values are known when the code is written)
//   z0, z1, …   the outputs, `T*`
//   scratch     `char*`, aligned to 64 bytes, if the kernel asks for some
//   params      `const StepParams*`
//   fail(v)     tells the host that the data is bad, and which value is; it stops nothing
#ifndef MIRRORFLOW_KERNELS_CUDA_CUDA_KERNEL_H_
#define MIRRORFLOW_KERNELS_CUDA_CUDA_KERNEL_H_

#include <string>
#include <utility>
#include <vector>

#include "framework/runtime/kernel_registry.h"
#include "kernels/cuda/code_text.h"
#include "kernels/cuda/program.h"

namespace mirrorflow {

struct CudaStage {
  std::string body;
  CudaGrid grid;
};

struct CudaKernelOptions {
  std::vector<std::string> includes = {};  // of kernels/cuda/code: "math.cuh"
  int64_t scratch_bytes = 0;
  std::vector<std::pair<int, int>> in_place = {};
  // What is wrong when the code calls fail: `label out of range; expected 0 to 9, got`; the value
  // follows. Empty: it never does.
  std::string error = {};
};

// Requires that the context has a CudaProgram. A stage without blocks is left out.
KernelPlan MakeCudaKernel(const KernelContext& c, std::vector<CudaStage> stages,
                          CudaKernelOptions options = {});

// The dtype of input i: of a variable's handle, what the variable holds.
DataType InputDataType(const KernelContext& c, int i);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_CUDA_KERNEL_H_
