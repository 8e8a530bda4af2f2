// SPDX-License-Identifier: Apache-2.0
//
// Kernels that compute each output element from input elements.
#ifndef MIRRORFLOW_KERNELS_CUDA_ELEMENTWISE_H_
#define MIRRORFLOW_KERNELS_CUDA_ELEMENTWISE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/cuda/cuda_kernel.h"

namespace mirrorflow {

// Describes how an element-wise op computes one result from one element of each operand. Elements
// have the types that code/base.cuh computes with (float for half and bfloat16).
struct Formula {
  std::string text;         // an expression, with functions of code/math.cuh
  std::string checks = {};  // statements that run first and may call fail (see cuda_kernel.h)
  std::string error = {};   // the error message if they call fail
};
// Returns the formula of an element-wise node, given the expressions of its operands.
Formula FormulaOf(const Node& node, absl::Span<const std::string> operands);

// Makes a kernel that sets out[i] = `formula.text` for each element, where `x0`, `x1`, … are the
// corresponding input elements. `formula.checks` runs first. Inputs broadcast to the output's
// shape; `shapes`, if given, replaces the input shapes with others that have the same elements. The
// output may overwrite an input of the same shape and element size. A thread loads and stores 16
// bytes at a time if the shapes allow it.
KernelPlan MakeElementwise(const KernelContext& c, const Formula& formula,
                           absl::Span<const Shape> shapes = {});

// Makes a kernel that sets out[i] = `value` for each element, where `value` is an expression of the
// index `i` and the operands a0, a1, … of cuda_kernel.h, such as `Load(a0[i / 2])`. Meant for ops
// that move elements. The output does not overwrite an input unless `options.in_place` allows it.
KernelPlan MakeIndexed(const KernelContext& c, absl::string_view value,
                       CudaKernelOptions options = {});

// Like MakeIndexed, but returns a stage that computes output `output`, for use in kernels with
// several stages.
CudaStage IndexedStage(const KernelContext& c, int output, absl::string_view value);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_ELEMENTWISE_H_
