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

// What becomes of a product before it is written.
enum class Epilogue {
  kNone,
  kBias,          // input 2 [n] is added to every row
  kBiasRelu,      // that, and negative elements are 0
  kBiasReluMask,  // that, and output 1 has a bit for each element, as _FusedMatMulRelu has it
  kReluGrad,      // as _MatMulReluGrad does it by such a mask
};

// output 0 [m,n] = input 0 [m,k] · input 1 [k,n] of `dtype`; a transposed operand lies in memory as
// [k,m] or [n,k]. Of a batch, each operand has either all matrices or one for all of them.
struct CublasProduct {
  DataType dtype;
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  int64_t batch = 1;
  bool batch_a = false, batch_b = false;  // whether the operand has them all
  Epilogue epilogue = Epilogue::kNone;    // others not of a batch
  bool allow_tf32 = false;
};

// Of the context's node. With autotune it is the fastest of what the heuristic proposes. Requires
// that no size is 0. Unimplemented for dtypes that the library does not multiply (it does half,
// bfloat16, float and double) and for shapes that it has no algorithm for.
absl::StatusOr<KernelPlan> MakeCublasProduct(const KernelContext& c, const CublasProduct& product);

// Whether the library both writes and reads masks of products [m,n]: how it orders their bits only
// it knows, so it must do both or neither.
bool CublasHasReluMasks(const CublasProduct& product);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_CUBLAS_LT_H_
