// SPDX-License-Identifier: Apache-2.0
//
// Products of a transposed matrix with another one, both of few rows: the gradient of a layer's
// weights, whose rows are the examples of a batch. The result is large and is what the time goes
// into, so it is made once: in tiles that stay in registers, and where it only updates a variable
// it is never stored.
#ifndef MIRRORFLOW_KERNELS_CPU_TRANSPOSED_PRODUCT_H_
#define MIRRORFLOW_KERNELS_CPU_TRANSPOSED_PRODUCT_H_

#include <cstdint>

#include "absl/types/span.h"
#include "framework/runtime/product_rows.h"

namespace mirrorflow {

// aᵀ · b for a [k,m] and b [k,n], whose rows lie in `parts`, one after the other.
struct TransposedProduct {
  absl::Span<const ProductRows> parts;
  int64_t m;
  int64_t n;

  // Whether this is faster than a product for all shapes: b fits into a core's cache.
  static bool IsGoodFor(int64_t m, int64_t n, int64_t k) {
    return n >= 32 && m >= 12 && k * n <= int64_t{1} << 17;
  }

  // How many floats the following need at `scratch`, for k rows in all.
  static int64_t ScratchFloats(int64_t n, int64_t k);
  // out [m,n] = aᵀ · b
  void Store(float* scratch, float* out) const;
  // Rows [first, last) of out [m,n] -= alpha · (aᵀ · b)
  void Subtract(float alpha, int64_t first, int64_t last, float* scratch, float* out) const;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_TRANSPOSED_PRODUCT_H_
