// SPDX-License-Identifier: Apache-2.0
//
// Pieces of CUDA C++ that kernel factories compose functions of.
#ifndef MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CODE_TEXT_H_
#define MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CODE_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/dtype.h"
#include "framework/core/shape.h"
#include "kernels/cuda/libraries/program.h"

namespace mirrorflow {

// The type of an element of this dtype in the code: `float`, `half`. `void`, which does not
// compile, for dtypes without one, such as strings and handles.
std::string CudaType(DataType dtype);
// The type that the code computes such elements in: `float` for half. The same as `Value<T>` of
// base.cuh.
std::string CudaValueType(DataType dtype);

// An exact literal of the value, of type `double`: `0x1.8p+1`.
std::string CudaLiteral(double value);

// A coordinate of an index: it takes `size` values, and a step of it moves by `stride` elements of
// an operand.
struct IndexDim {
  int64_t size;
  int64_t stride;
};

// The expression of the offset of element `index` in an operand: `offset` plus each coordinate
// times its stride. `index` counts through `dims` with the last one fastest. Contiguous dimensions
// become one coordinate, and operations without effect are left out. Examples:
// `i`, `(i / 10 % 4) * 3 + i % 10`.
std::string OffsetText(absl::string_view index, std::vector<IndexDim> dims, int64_t offset = 0);

// The expression of the offset of element `index` of `out` in an operand whose shape broadcasts to
// it.
std::string BroadcastText(absl::string_view index, const Shape& out, const Shape& operand);

// Says whether `width` adjacent elements of an output, the first at a multiple of `width`, belong
// to adjacent elements of an operand whose shape broadcasts to the output's, to the same, or
// neither.
enum class Neighbours { kAdjacent, kSame, kNeither };
Neighbours NeighboursOf(const Shape& out, const Shape& operand, int width);

// The strides of a contiguous row-major tensor, in elements.
std::vector<int64_t> Strides(const Shape& shape);

// The grid of Elementwise, with packs of `width` elements, and of ForEach over n elements.
CudaGrid ElementwiseGrid(int64_t n, int width = 1);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CODE_TEXT_H_
