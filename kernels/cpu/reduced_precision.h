// SPDX-License-Identifier: Apache-2.0
//
// half and bfloat16 on the CPU: for every op at once. Where a factory has no kernel for them, the
// kernel for float runs between two conversions: operands are widened into scratch, results and
// variables are rounded once, to the nearest. Kernels that only move elements need none of this.
#ifndef MIRRORFLOW_KERNELS_CPU_REDUCED_PRECISION_H_
#define MIRRORFLOW_KERNELS_CPU_REDUCED_PRECISION_H_

#include <cstdint>

#include "framework/core/reduced_float.h"
#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// `n` elements of `dtype`, half or bfloat16, as floats, and back again.
void WidenReduced(DataType dtype, const uint16_t* from, float* to, int64_t n);
void RoundToReduced(DataType dtype, const float* from, uint16_t* to, int64_t n);

// The kernel of the context's node in float, between conversions; Unimplemented if nothing of the
// node is half or bfloat16, or if it has no kernel in float either.
absl::StatusOr<KernelPlan> CreateInFloat(const KernelContext& context, KernelFactory factory);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_REDUCED_PRECISION_H_
