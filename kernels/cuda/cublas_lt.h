// SPDX-License-Identifier: Apache-2.0
//
// Products of matrices by cuBLASLt: the algorithm is chosen when the plan is made, by the library's
// heuristic, among those whose sums do not depend on timing. Workspace is the kernel's scratch.
#ifndef MIRRORFLOW_KERNELS_CUDA_CUBLAS_LT_H_
#define MIRRORFLOW_KERNELS_CUDA_CUBLAS_LT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/runtime/kernel.h"

namespace mirrorflow {

// output 0 [m,n] = input 0 [m,k] · input 1 [k,n] of `dtype`; a transposed operand lies in memory as
// [k,m] or [n,k]. Of a batch, each operand has either all matrices or one for all of them.
struct CublasProduct {
  DataType dtype;
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  int64_t batch = 1;
  bool batch_a = false, batch_b = false;  // whether the operand has them all
  bool bias = false;                      // input 2 [n] is added to every row; not of a batch
  bool allow_tf32 = false;
};

// Requires that no size is 0. Unimplemented for dtypes that the library does not multiply (it does
// half, bfloat16, float and double) and for shapes that it has no algorithm for.
absl::StatusOr<KernelPlan> MakeCublasProduct(const CublasProduct& product);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_CUBLAS_LT_H_
