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

// Unimplemented for dtypes that the code has no type for, such as strings and handles.
absl::Status CheckMovable(DataType dtype);

// A kernel that sets element `i` of output 0 to `element`, an expression of an element of an input,
// unchanged (see MakeIndexed).
absl::StatusOr<KernelPlan> MoveKernel(const KernelContext& c, absl::string_view element,
                                      CudaKernelOptions options = {});

// The expression of a zero: `Zero<float>()`.
std::string ZeroText(DataType dtype);

// The number of elements in the dimensions before `axis`, and in those from `axis` on.
int64_t NumElementsBefore(const Shape& shape, int axis);
int64_t NumElementsFrom(const Shape& shape, int axis);

// The expressions of the coordinates of element `index` of a value of these sizes.
std::vector<std::string> CoordinateTexts(absl::string_view index, absl::Span<const int64_t> sizes);

// A dimension of an output. Its coordinates first, first + step, … are the `count` coordinates of
// an operand.
struct WindowDim {
  int64_t size;
  int64_t count;
  int64_t first = 0;
  int64_t step = 1;

  bool whole() const { return first == 0 && step == 1 && count == size; }
};
// Merges neighbouring dimensions that are whole.
std::vector<WindowDim> MergeWhole(absl::Span<const WindowDim> dims);
// The expression of output[index]: an element of `operand` where all coordinates are some of the
// operand's, else `otherwise`.
std::string WindowText(absl::string_view index, absl::Span<const WindowDim> dims,
                       absl::string_view operand, absl::string_view otherwise);

// A stage that sets output `output` to this value, which becomes part of the code.
CudaStage ConstantStage(int output, const Tensor& value);
// The same for an output of dtype int32 or int64.
CudaStage IntegersStage(const KernelContext& c, int output, absl::Span<const int64_t> values);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_MOVES_H_
