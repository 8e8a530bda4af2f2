// SPDX-License-Identifier: Apache-2.0
//
// Hand-written matrix products, for dtypes and layouts that no library supports.
#ifndef MIRRORFLOW_KERNELS_CUDA_PLAIN_PRODUCT_H_
#define MIRRORFLOW_KERNELS_CUDA_PLAIN_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "framework/runtime/kernel.h"

namespace mirrorflow {

// Products of matrices a [m,k] and b [k,n], one for each batch index. Steps are in elements. They
// express transposition, and are 0 in dimensions along which an operand broadcasts.
struct PlainProduct {
  struct BatchDim {
    int64_t size;
    int64_t a_step, b_step;
  };

  int64_t m, n, k;
  int64_t a_row_step, a_column_step;
  int64_t b_row_step, b_column_step;
  std::vector<BatchDim> batch = {};  // outermost first
};

// Returns the product of a MatMul or BatchMatMulV2.
PlainProduct PlainProductOf(const KernelContext& c, bool transpose_a, bool transpose_b);

// Makes a kernel that computes output 0 = input 0 * input 1, all of one dtype. The output is
// row-major and contiguous.
KernelPlan MakePlainProduct(const KernelContext& c, const PlainProduct& product);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_PLAIN_PRODUCT_H_
