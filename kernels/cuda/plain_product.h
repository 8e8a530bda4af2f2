// SPDX-License-Identifier: Apache-2.0
//
// Products of matrices by our own code, for dtypes and layouts that no library has.
#ifndef MIRRORFLOW_KERNELS_CUDA_PLAIN_PRODUCT_H_
#define MIRRORFLOW_KERNELS_CUDA_PLAIN_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "framework/runtime/kernel.h"

namespace mirrorflow {

// Matrices a [m,k] and b [k,n], and as many of each as the batch dimensions say. A transposed
// matrix is one of other steps, and an operand that broadcasts has steps of 0. All in elements.
struct PlainProduct {
  struct BatchDim {
    int64_t size;
    int64_t a_step, b_step;
  };

  int64_t m, n, k;
  int64_t a_row_step, a_column_step;
  int64_t b_row_step, b_column_step;
  std::vector<BatchDim> batch = {};  // the outermost first
};

// That of MatMul and BatchMatMulV2.
PlainProduct PlainProductOf(const KernelContext& c, bool transpose_a, bool transpose_b);

// Output 0 = input 0 * input 1, of one dtype, with dense rows.
KernelPlan MakePlainProduct(const KernelContext& c, const PlainProduct& product);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_PLAIN_PRODUCT_H_
