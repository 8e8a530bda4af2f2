// SPDX-License-Identifier: Apache-2.0
//
// Pieces of CUDA C++ that factories of kernels put together.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_TEXT_H_
#define MIRRORFLOW_KERNELS_CUDA_CODE_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/dtype.h"
#include "framework/core/shape.h"
#include "kernels/cuda/program.h"

namespace mirrorflow {

// What the code calls an element of this dtype: `float`, `half`. Not of strings and handles.
std::string CudaType(DataType dtype);
// What it computes in: `float` for half. `Value<T>` of base.cuh.
std::string CudaValueType(DataType dtype);

// A literal of the value, exact: `0x1.8p+1`, of type `double`.
std::string CudaLiteral(double value);

// One coordinate that an index is made of: it takes `size` values, and a step of it is `stride`
// elements of an operand.
struct IndexDim {
  int64_t size;
  int64_t stride;
};

// The expression of where `index`, which counts through `dims` with the last one fastest, lies in
// an operand: `offset` plus each coordinate times its stride. Neighbours that lie in one run become
// one coordinate, and what no index needs is left out: `i`, `(i / 10 % 4) * 3 + i % 10`.
std::string OffsetText(absl::string_view index, std::vector<IndexDim> dims, int64_t offset = 0);

// Where element `index` of `out` lies in an operand of a shape that broadcasts to it.
std::string BroadcastText(absl::string_view index, const Shape& out, const Shape& operand);

// The strides of dense rows, in elements.
std::vector<int64_t> Strides(const Shape& shape);

// The grid of Elementwise and ForEach over n elements.
CudaGrid ElementwiseGrid(int64_t n);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_TEXT_H_
