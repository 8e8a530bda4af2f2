// SPDX-License-Identifier: Apache-2.0
//
// Pieces of kernels that move elements; see code/move.cuh.
#ifndef MIRRORFLOW_KERNELS_CUDA_MOVES_H_
#define MIRRORFLOW_KERNELS_CUDA_MOVES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/tensor.h"
#include "kernels/cuda/cuda_kernel.h"

namespace mirrorflow {

// Returns Unimplemented for dtypes without a type in device code, such as strings and handles.
absl::Status CheckMovable(DataType dtype);

// Makes a kernel that sets element `i` of output 0 to `element`, an expression for an unchanged
// input element (see MakeIndexed).
absl::StatusOr<KernelPlan> MoveKernel(const KernelContext& c, absl::string_view element,
                                      CudaKernelOptions options = {});

// Returns the expression for a zero, such as `Zero<float>()`.
std::string ZeroText(DataType dtype);

// Returns expressions for the coordinates of element `index` of a value with these sizes.
std::vector<std::string> CoordinateTexts(absl::string_view index, absl::Span<const int64_t> sizes);

// A dimension of an output. The coordinates first, first + step, … in this dimension correspond to
// the `count` coordinates of an operand.
struct WindowDim {
  int64_t size;
  int64_t count;
  int64_t first = 0;
  int64_t step = 1;

  bool whole() const { return first == 0 && step == 1 && count == size; }
};
// Merges adjacent dimensions that are whole.
std::vector<WindowDim> MergeWhole(absl::Span<const WindowDim> dims);
// Returns the expression for output[index]: an element of `operand` if every coordinate corresponds
// to one of the operand's, otherwise `otherwise`.
std::string WindowText(absl::string_view index, absl::Span<const WindowDim> dims,
                       absl::string_view operand, absl::string_view otherwise);

// Returns a stage that sets output `output` to `value`. The value becomes part of the code.
CudaStage ConstantStage(int output, const Tensor& value);
// Like ConstantStage, for an output of dtype int32 or int64.
CudaStage IntegersStage(const KernelContext& c, int output, absl::Span<const int64_t> values);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_MOVES_H_
