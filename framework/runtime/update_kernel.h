// SPDX-License-Identifier: Apache-2.0
//
// Kernels of optimizer updates, which can update a part of a variable alone.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_UPDATE_KERNEL_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_UPDATE_KERNEL_H_

#include <cstdint>

#include "absl/types/span.h"
#include "framework/runtime/kernel.h"
#include "framework/runtime/product_rows.h"

namespace mirrorflow {

// An update that works element by element. The gradient may be anywhere in memory.
class UpdateKernel : public Kernel {
 public:
  const UpdateKernel* AsUpdate() const final { return this; }
  // Updates elements [first, first + count) of the variables. `gradient` has only these elements;
  // the operand of that name is not read.
  virtual void RunPart(const KernelArgs& args, const void* gradient, int64_t first,
                       int64_t count) const = 0;
};

// An update whose gradient is a product aᵀ · b, which the kernel computes.
class UpdateByProductKernel : public Kernel {
 public:
  const UpdateByProductKernel* AsUpdateByProduct() const final { return this; }
  // Updates rows [first, last) of the variable. Reads `parts` instead of the operands a and b.
  virtual void RunRows(const KernelArgs& args, absl::Span<const ProductRows> parts, int64_t first,
                       int64_t last) const = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_UPDATE_KERNEL_H_
