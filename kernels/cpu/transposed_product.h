// SPDX-License-Identifier: Apache-2.0
//
// Products of a transposed matrix with another one, both of few rows: the gradient of a layer's
// weights, whose rows are the examples of a batch. The result is large and is what the time goes
// into, so it is made once: in tiles that stay in registers, and where it only updates a variable
// it is never stored.
#ifndef MIRRORFLOW_KERNELS_CPU_TRANSPOSED_PRODUCT_H_
#define MIRRORFLOW_KERNELS_CPU_TRANSPOSED_PRODUCT_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace mirrorflow {

// a [k,m], whose rows are `a_stride` floats apart, and b [k,n], row by row.
struct TransposedProduct {
  const float* a;
  const float* b;
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t a_stride = m;

  // Whether this is faster than a product for all shapes: b fits into a core's cache.
  static bool IsGoodFor(int64_t m, int64_t n, int64_t k) {
    return n >= 32 && m >= 12 && k * n <= int64_t{1} << 17;
  }

  // out [m,n] = aᵀ · b
  void Store(float* out) const;
  // out [m,n] -= alpha · (aᵀ · b)
  void Subtract(float alpha, float* out) const;
  // Calls use(at, values, count) for all of aᵀ · b, piece by piece: elements [at, at + count),
  // while they are in the cache. `scratch` is PieceFloats() long.
  void ForEachPiece(float* scratch,
                    absl::FunctionRef<void(int64_t, const float*, int64_t)> use) const;
  static int64_t PieceFloats();
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_TRANSPOSED_PRODUCT_H_
