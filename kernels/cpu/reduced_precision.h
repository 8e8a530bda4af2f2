// SPDX-License-Identifier: Apache-2.0
//
// Support for half and bfloat16 in every op on the CPU. If a factory has no kernel for them, the
// float kernel runs between two conversions: operands are widened into scratch memory, and results
// and variables are rounded once, to nearest. Kernels that only move elements do not need this.
#ifndef MIRRORFLOW_KERNELS_CPU_REDUCED_PRECISION_H_
#define MIRRORFLOW_KERNELS_CPU_REDUCED_PRECISION_H_

#include <cstdint>

#include "framework/core/reduced_float.h"
#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// Convert `n` elements of `dtype`, which is half or bfloat16, to float and back.
void WidenReduced(DataType dtype, const uint16_t* from, float* to, int64_t n);
void RoundToReduced(DataType dtype, const float* from, uint16_t* to, int64_t n);

// Creates the float kernel of the context's node, wrapped in conversions. Returns Unimplemented if
// no operand or result is half or bfloat16, or if the op has no float kernel.
absl::StatusOr<KernelPlan> CreateInFloat(const KernelContext& context, KernelFactory factory);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_REDUCED_PRECISION_H_
