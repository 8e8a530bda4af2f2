// SPDX-License-Identifier: Apache-2.0
//
// Matrix products that cuBLASLt computes. When a plan is made, the library's heuristic chooses an
// algorithm among those whose sums do not depend on timing. The workspace is the kernel's scratch.
#ifndef MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUBLAS_LT_H_
#define MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUBLAS_LT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/runtime/kernel.h"

namespace mirrorflow {

// An operation applied to a product before it is written.
enum class Epilogue {
  kNone,
  kBias,          // input 2 [n] is added to every row
  kBiasRelu,      // like kBias; then negative elements become 0
  kBiasReluMask,  // like kBiasRelu; output 1 is the mask of _FusedMatMulRelu
  kReluGrad,      // _MatMulReluGrad, with a mask that the library has written
};

// Describes output 0 [m,n] = input 0 [m,k] · input 1 [k,n], all of `dtype`. A transposed
// operand is stored as [k,m] or [n,k]. In a batch, each operand has either one matrix per
// product or a single matrix for all products.
struct CublasProduct {
  DataType dtype;
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  int64_t batch = 1;
  bool batch_a = false, batch_b = false;  // whether the operand has one matrix per product
  Epilogue epilogue = Epilogue::kNone;    // always kNone in a batch
  bool allow_tf32 = false;
};

// Returns a kernel for the context's node. With autotune, it uses the fastest of the heuristic's
// proposals. Requires that no size is 0. Returns Unimplemented for dtypes other than half,
// bfloat16, float and double, and for shapes that the library has no algorithm for.
absl::StatusOr<KernelPlan> MakeCublasProduct(const KernelContext& c, const CublasProduct& product);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUBLAS_LT_H_
