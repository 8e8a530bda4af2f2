// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_MATMUL_H_
#define MIRRORFLOW_OPS_MATMUL_H_

#include "framework/core/shape.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

// Returns the batch dimensions: all but the last two.
Shape BatchDims(const Shape& matrices);

namespace ops {

// Op names, for passes that match these ops.
inline constexpr char kBatchMatMulV2[] = "BatchMatMulV2";
inline constexpr char kMatMul[] = "MatMul";

struct MatMulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
};

// MatMul: the product of two matrices.
//   product[m,n] = sum_k a[m,k] * b[k,n], where the options may transpose a and b first.
// Shapes:   a [M,K] (or [K,M]), b [K,N] (or [N,K]) -> product [M,N]. Any of M, K and N may be 0.
// Dtypes:   half, bfloat16, float, double, int32, int64.
// Errors:   InvalidArgument if the inner dimensions differ, or if an operand is not a matrix.
// Gradient: d a = dy bᵀ, d b = aᵀ dy.
Output MatMul(const Scope& scope, Output a, Output b, const MatMulOptions& options = {});

struct BatchMatMulV2Options {
  bool adj_x = false;
  bool adj_y = false;
};

// BatchMatMulV2: a batch of matrix products.
//   output[…,m,n] = sum_k x[…,m,k] * y[…,k,n], where the options may transpose the matrices of x
//   and y first.
// Shapes:   x […,M,K] (or […,K,M]), y […,K,N] (or […,N,K]); the leading dimensions broadcast.
// Dtypes and gradient are as for MatMul; the gradient is summed over broadcast dimensions.
// Errors:   InvalidArgument if the inner dimensions differ, if the leading dimensions do not
//           broadcast, or if the rank of an operand is below 2.
Output BatchMatMulV2(const Scope& scope, Output x, Output y,
                     const BatchMatMulV2Options& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_MATMUL_H_
