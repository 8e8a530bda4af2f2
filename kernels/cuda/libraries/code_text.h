// SPDX-License-Identifier: Apache-2.0
//
// Helpers for kernel factories that generate CUDA C++.
#ifndef MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CODE_TEXT_H_
#define MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CODE_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/core/dtype.h"
#include "framework/core/shape.h"
#include "kernels/cuda/libraries/program.h"

namespace mirrorflow {

// Returns the device code's type for elements of this dtype, such as `float` or `half`. Returns
// `void`, which does not compile, for dtypes without such a type, such as strings and handles.
std::string CudaType(DataType dtype);
// Returns the type that the device code uses to compute with such elements, for example `float` for
// half. Matches `Value<T>` of base.cuh.
std::string CudaValueType(DataType dtype);

// Returns an exact literal of type `double`, such as `0x1.8p+1`.
std::string CudaLiteral(double value);

// A coordinate of an index. It has `size` values, and each step along it moves `stride` elements in
// an operand.
struct IndexDim {
  int64_t size;
  int64_t stride;
};

// Returns the expression for the offset of element `index` in an operand: `offset` plus each
// coordinate times its stride. `index` counts through `dims` with the last one fastest. Contiguous
// dimensions become one coordinate, and operations without effect are omitted. Examples: `i`,
// `(i / 10 % 4) * 3 + i % 10`.
std::string OffsetText(absl::string_view index, std::vector<IndexDim> dims, int64_t offset = 0);

// Returns the expression for the offset of element `index` of `out` in an operand whose shape
// broadcasts to `out`.
std::string BroadcastText(absl::string_view index, const Shape& out, const Shape& operand);

// Which elements of an operand correspond to `width` adjacent output elements, the first at a
// multiple of `width`: adjacent elements, the same element, or neither. The operand's shape
// broadcasts to the output's.
enum class Neighbours { kAdjacent, kSame, kNeither };
Neighbours NeighboursOf(const Shape& out, const Shape& operand, int width);

// Returns a / b, rounded up.
inline int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Returns the grid for Elementwise with packs of `width` elements, and for ForEach over n elements.
CudaGrid ElementwiseGrid(int64_t n, int width = 1);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CODE_TEXT_H_
