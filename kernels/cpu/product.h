// SPDX-License-Identifier: Apache-2.0
//
// Products of float matrices that other code has no fast way for, on any processor: of a transposed
// matrix, both of few rows, as the gradient of a layer's weights is. The result is large and is
// what the time goes into, so it is made once: in tiles that stay in registers, and where it only
// updates a variable it is never stored. And, where vectors are of 8 floats, all others: there
// oneDNN 2.6 reads a matrix in place whose rows are aligned, at two thirds of the speed or less
// (docs/benchmarks.md).
//
// Blocks of both operands are copied together first, as in Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication" (2008). A number of the result has the same bits whatever
// the other rows and columns are. Nothing is allocated; 400 KB of stack are used.
#ifndef MIRRORFLOW_KERNELS_CPU_PRODUCT_H_
#define MIRRORFLOW_KERNELS_CPU_PRODUCT_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace mirrorflow {

// Number (i, j) is data[i * row_step + j * column_step].
struct StridedMatrix {
  const float* data;
  int64_t row_step;
  int64_t column_step;
};

// a [m,k] · b [k,n], row by row, or each of them transposed: in memory [k,m] or [n,k].
struct ProductTerm {
  StridedMatrix a;
  StridedMatrix b;
  int64_t k;
};

// [m,n], the sum of all terms: of one, or of the rows that several replicas have.
struct Product {
  absl::Span<const ProductTerm> terms;
  int64_t m;
  int64_t n;

  // Whether this is the fastest way for large products, or for this one. `transposed`: a is, b is
  // not.
  static bool IsFastest(int64_t m, int64_t n, int64_t k, bool transposed);

  // out = product + bias; `bias` has n floats, or is null.
  void Store(float* out, const float* bias = nullptr) const;
  // out -= alpha · product
  void Subtract(float alpha, float* out) const;

  // Calls use(at, values, count) for all of the product, piece by piece: elements [at, at + count),
  // while they are in the cache. `scratch` is PieceFloats() long; all k together are at most
  // kMaxDepthOfPieces.
  void ForEachPiece(float* scratch,
                    absl::FunctionRef<void(int64_t, const float*, int64_t)> use) const;
  static int64_t PieceFloats();
  static constexpr int64_t kMaxDepthOfPieces = 1024;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_PRODUCT_H_
