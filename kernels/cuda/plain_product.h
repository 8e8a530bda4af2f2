// SPDX-License-Identifier: Apache-2.0
//
// Hand-written matrix products, for dtypes and layouts that no library supports.
#ifndef MIRRORFLOW_KERNELS_CUDA_PLAIN_PRODUCT_H_
#define MIRRORFLOW_KERNELS_CUDA_PLAIN_PRODUCT_H_

#include "framework/runtime/kernel.h"

namespace mirrorflow {

// Makes a kernel that computes output 0 of a MatMul or BatchMatMulV2: input 0 * input 1, all of one
// dtype.
KernelPlan MakePlainProduct(const KernelContext& c, bool transpose_a, bool transpose_b);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_PLAIN_PRODUCT_H_
