// SPDX-License-Identifier: Apache-2.0
//
// Kernels that compute each element of an output from elements of the inputs.
#ifndef MIRRORFLOW_KERNELS_CUDA_ELEMENTWISE_H_
#define MIRRORFLOW_KERNELS_CUDA_ELEMENTWISE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "kernels/cuda/cuda_kernel.h"

namespace mirrorflow {

// out[i] = formula for each element. In the formula, `x0`, `x1`, … are the elements of the inputs
// that belong to it, in the types that they are computed in (float, for half and bfloat16), and
// functions are those of code/math.cuh. Inputs broadcast to the output's shape. The output may be
// written over an input of its shape and element size.
// `checks`: statements before the formula, which may call fail (see cuda_kernel.h) if `error` says
// what is wrong then.
struct Formula {
  std::string text;
  std::string checks = {};
  std::string error = {};
};
KernelPlan MakeElementwise(const KernelContext& c, const Formula& formula);

// The same from `value`, an expression of the output's index `i` and the operands a0, a1, … as
// cuda_kernel.h has them: `Load(a0[i / 2])`. For ops that move elements; the output is not written
// over an input.
KernelPlan MakeIndexed(const KernelContext& c, absl::string_view value,
                       CudaKernelOptions options = {});

// A stage of that kind for output `output`, for kernels that have several.
CudaStage IndexedStage(const KernelContext& c, int output, absl::string_view value);

// The table of an op family: the kernel of each op is the function of its name in math.cuh.
void RegisterByName(KernelRegistry& kernels, std::initializer_list<const char*> ops);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_ELEMENTWISE_H_
