// SPDX-License-Identifier: Apache-2.0
//
// Product multiplies large float matrices in two cases where other libraries are slow (see
// IsFastest()):
//   - A transposed matrix times another, both with few rows, such as the gradient of a layer's
//     weights. The result is large and dominates the run time. It is computed in one pass, in tiles
//     that stay in registers, and is never stored if it only updates a variable.
//   - Any product on processors with vectors of 8 floats. On these, oneDNN 2.6 reads a matrix with
//     aligned rows in place and is at most two thirds as fast (docs/benchmarks.md).
//
// Blocks of both operands are packed first, as in Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication" (2008). The bits of a result element do not depend on
// other rows or columns. A call allocates no memory and uses 400 KB of stack.
#ifndef MIRRORFLOW_KERNELS_CPU_PRODUCT_H_
#define MIRRORFLOW_KERNELS_CPU_PRODUCT_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace mirrorflow {

// A matrix whose element (i, j) is data[i * row_step + j * column_step].
struct StridedMatrix {
  const float* data;
  int64_t row_step;
  int64_t column_step;
};

// The product a [m,k] · b [k,n]. Either operand may be stored row by row or transposed, as
// [k,m] or [n,k].
struct ProductTerm {
  StridedMatrix a;
  StridedMatrix b;
  int64_t k;
};

// A product [m,n]: the sum of all terms. There is either a single term or one per replica that
// contributes rows.
struct Product {
  absl::Span<const ProductTerm> terms;
  int64_t m;
  int64_t n;
  int64_t out_stride = n;  // between rows of the result, in floats

  // Returns whether Product is the fastest way to compute a large product of this size. If
  // `transposed` is true, a is transposed and b is not.
  static bool IsFastest(int64_t m, int64_t n, int64_t k, bool transposed);

  // Sums over k are computed in blocks of at most kMaxDepth, and then added. Returns the depth of
  // all blocks but the last.
  static int64_t BlockDepth(int64_t k, int64_t max_depth = kMaxDepth);
  static constexpr int64_t kMaxDepth = 512;

  // Sets out = product + bias. `bias` has n floats or is null.
  void Store(float* out, const float* bias = nullptr) const;
  // Sets out -= alpha · product.
  void Subtract(float alpha, float* out) const;

  // Calls use(at, values, count) for all elements of the product, [at, at + count) at a time, while
  // they are in the cache. `scratch` has PieceFloats() floats. Requires that the sum of k over all
  // terms is at most kMaxDepthOfPieces.
  void ForEachPiece(float* scratch,
                    absl::FunctionRef<void(int64_t, const float*, int64_t)> use) const;
  static int64_t PieceFloats();
  static constexpr int64_t kMaxDepthOfPieces = 1024;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_PRODUCT_H_
