// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_MATMUL_H_
#define MIRRORFLOW_OPS_MATMUL_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterMatMul(OpRegistry& ops);

namespace ops {

// For passes that are about them.
inline constexpr char kBatchMatMulV2[] = "BatchMatMulV2";
inline constexpr char kMatMul[] = "MatMul";

struct MatMulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
};

// MatMul: the product of two matrices.
//   product[m,n] = sum_k a[m,k] * b[k,n], each of a and b transposed first if asked.
// Shapes:   a [M,K] (or [K,M]), b [K,N] (or [N,K]) -> product [M,N]. Any of them may be 0.
// Dtypes:   float, double, int32, int64.
// Errors:   InvalidArgument if the inner dimensions differ.
// Gradient: d a = dy bᵀ, d b = aᵀ dy.
Output MatMul(const Scope& scope, Output a, Output b, const MatMulOptions& options = {});

struct BatchMatMulV2Options {
  bool adj_x = false;
  bool adj_y = false;
};

// BatchMatMulV2: the product of two matrices for each index of a batch.
//   output[…,m,n] = sum_k x[…,m,k] * y[…,k,n], each matrix of x and of y transposed first if asked.
// Shapes:   x […,M,K] (or […,K,M]), y […,K,N] (or […,N,K]); the dimensions in front broadcast.
// Dtypes, errors and gradient as of MatMul; the gradient is summed over what was broadcast.
Output BatchMatMulV2(const Scope& scope, Output x, Output y,
                     const BatchMatMulV2Options& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_MATMUL_H_
