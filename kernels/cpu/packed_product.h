// SPDX-License-Identifier: Apache-2.0
//
// PackedProduct multiplies up to 48 rows by a matrix that changes rarely, such as the weights of a
// layer at inference. A product of few rows takes as long as reading the matrix, so the matrix is
// kept in the order in which it is read (OperandForm), and each part is fetched while the part
// before it is multiplied. On one core of a Zen 5 processor, 12 rows by 4096x4096 run at 170
// GFLOP/s; oneDNN 2.6, which alternates between multiplying and fetching, reaches 120.
//
// The bits of a result element do not depend on other rows or columns, and equal those of Product.
// A call allocates no memory and uses 100 KB of stack.
#ifndef MIRRORFLOW_KERNELS_CPU_PACKED_PRODUCT_H_
#define MIRRORFLOW_KERNELS_CPU_PACKED_PRODUCT_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/product.h"

namespace mirrorflow {

// The product a [m,k] · b [k,n]. The rows of a are contiguous.
struct PackedProduct {
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t out_stride = n;  // between rows of the result, in floats
  // Store computes the columns [first_column, end_column); `out` and `bias` begin with the first of
  // them. `first_column` must be a multiple of kColumnMultiple.
  int64_t first_column = 0;
  int64_t end_column = n;

  // The size of the packed matrix b.
  int64_t PackedFloats() const;
  void Pack(const StridedMatrix& b, float* packed) const;
  // Calls use(row, first, count, offset) for each part of a row of b that is contiguous when
  // packed: the elements [first, first + count) of the row are stored from packed[offset]. Offsets
  // increase, and a part has at most kMaxPart elements. Store ignores what is between the parts.
  void ForEachPart(
      absl::FunctionRef<void(int64_t row, int64_t first, int64_t count, int64_t offset)> use) const;
  static constexpr int64_t kMaxPart = 64;
  static constexpr int64_t kColumnMultiple = 32;

  // Sets out = a · b + bias, where `b` is packed. `bias` has n floats or is null.
  // Requires 0 < m <= kMaxRows and k > 0.
  void Store(const float* a, const float* b, float* out, const float* bias = nullptr) const;

  // Like Store above, but `copy` supplies the rows of a: copy(first, depth, rows) writes the
  // elements [first, first + depth) of each row, row i at rows + i * kRowStep.
  using CopyRows = absl::FunctionRef<void(int64_t first, int64_t depth, float* rows)>;
  void Store(CopyRows copy, const float* b, float* out, const float* bias = nullptr) const;
  // The extra floats keep the rows from competing for the same sets of the cache.
  static constexpr int64_t kRowStep = Product::kMaxDepth + 16;

  // Callers divide products of more rows; see RowsPerPart.
  static constexpr int64_t kMaxRows = 48;
  // Returns how many rows each part has, except the last, if a product of `m` rows is divided into
  // as few and as equal parts as possible.
  static int64_t RowsPerPart(int64_t m);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_PACKED_PRODUCT_H_
