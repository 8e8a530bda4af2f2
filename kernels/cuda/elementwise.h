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

// The computation of an element-wise op on one element of each operand, in the types that
// code/base.cuh computes in (float for half and bfloat16).
struct Formula {
  std::string text;         // an expression, with functions of code/math.cuh
  std::string checks = {};  // statements before it, which may call fail (see cuda_kernel.h)
  std::string error = {};   // the message if they do
};
// The formula of an element-wise node, given the expressions of its operands.
Formula FormulaOf(const Node& node, absl::Span<const std::string> operands);

// out[i] = `formula.text` for each element, where `x0`, `x1`, … are the elements of the inputs that
// belong to it. `formula.checks` runs before. Inputs broadcast to the output's shape; `shapes`, if
// given, replaces their own shapes by others with the same elements. The output may overwrite an
// input of its shape and element size. A thread loads and stores 16 bytes at a time where the
// shapes allow it.
KernelPlan MakeElementwise(const KernelContext& c, const Formula& formula,
                           absl::Span<const Shape> shapes = {});

// out[i] = `value` for each element: an expression of the index `i` and the operands a0, a1, … of
// cuda_kernel.h, such as `Load(a0[i / 2])`. For ops that move elements. The output does not
// overwrite an input unless `options.in_place` says so.
KernelPlan MakeIndexed(const KernelContext& c, absl::string_view value,
                       CudaKernelOptions options = {});

// A single stage of MakeIndexed, for output `output`, for kernels with several stages.
CudaStage IndexedStage(const KernelContext& c, int output, absl::string_view value);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_ELEMENTWISE_H_
