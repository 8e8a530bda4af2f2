// SPDX-License-Identifier: Apache-2.0
//
// Kernels that compute each element of an output from elements of the inputs.
#ifndef MIRRORFLOW_KERNELS_CUDA_ELEMENTWISE_H_
#define MIRRORFLOW_KERNELS_CUDA_ELEMENTWISE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/cuda/cuda_kernel.h"

namespace mirrorflow {

// What an element-wise op computes of one element of each operand, in the types that code/base.cuh
// computes in (float, for half and bfloat16).
struct Formula {
  std::string text;         // an expression, with functions of code/math.cuh
  std::string checks = {};  // statements before it, which may call fail (see cuda_kernel.h)
  std::string error = {};   // what is wrong if they do
};
// Of a node with kernels by formula, from the expressions of its operands.
Formula FormulaOf(const Node& node, absl::Span<const std::string> operands);

// out[i] = `value` for each element, where `x0`, `x1`, … are the elements of the inputs that belong
// to it. Inputs broadcast to the output's shape. The output may be written over an input of its
// shape and element size. `formula.checks` comes before.
KernelPlan MakeElementwise(const KernelContext& c, const Formula& formula);

// The same from `value`, an expression of the output's index `i` and the operands a0, a1, … as
// cuda_kernel.h has them: `Load(a0[i / 2])`. For ops that move elements; the output is not written
// over an input.
KernelPlan MakeIndexed(const KernelContext& c, absl::string_view value,
                       CudaKernelOptions options = {});

// A stage of that kind for output `output`, for kernels that have several.
CudaStage IndexedStage(const KernelContext& c, int output, absl::string_view value);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_ELEMENTWISE_H_
