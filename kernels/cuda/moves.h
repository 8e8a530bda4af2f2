// SPDX-License-Identifier: Apache-2.0
//
// What kernels that move elements put together: see code/move.cuh.
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

// Unimplemented for strings, handles and what else the code has no type for.
absl::Status CheckMovable(DataType dtype);

// Output 0 from `element`, an expression of its index `i` that is an element of an input, unchanged
// (see MakeIndexed).
absl::StatusOr<KernelPlan> MoveKernel(const KernelContext& c, absl::string_view element,
                                      CudaKernelOptions options = {});

// `Zero<float>()`
std::string ZeroText(DataType dtype);

// How many combinations of indices there are of the dimensions before `axis`, and of the others.
int64_t NumElementsBefore(const Shape& shape, int axis);
int64_t NumElementsFrom(const Shape& shape, int axis);

// The expressions of the coordinates of element `index` of a value of these sizes.
std::vector<std::string> CoordinateTexts(absl::string_view index, absl::Span<const int64_t> sizes);

// A dimension of an output. Coordinates first, first + step, … are the `count` ones of an operand.
struct WindowDim {
  int64_t size;
  int64_t count;
  int64_t first = 0;
  int64_t step = 1;

  bool whole() const { return first == 0 && step == 1 && count == size; }
};
// With neighbours that are whole as one dimension.
std::vector<WindowDim> MergeWhole(absl::Span<const WindowDim> dims);
// output[index] = `operand`[…] where all coordinates are some of the operand's, else `otherwise`.
std::string WindowText(absl::string_view index, absl::Span<const WindowDim> dims,
                       absl::string_view operand, absl::string_view otherwise);

// A stage that makes output `output` this value, which the text then has in it.
CudaStage ConstantStage(int output, const Tensor& value);
// The same of an output of int32 or int64.
CudaStage IntegersStage(const KernelContext& c, int output, absl::Span<const int64_t> values);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_MOVES_H_
