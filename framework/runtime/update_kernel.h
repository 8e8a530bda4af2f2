// SPDX-License-Identifier: Apache-2.0
//
// Optimizer update kernels that can update a range of a variable.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_UPDATE_KERNEL_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_UPDATE_KERNEL_H_

#include <cstdint>

#include "absl/types/span.h"
#include "framework/runtime/kernel.h"
#include "framework/runtime/product_rows.h"

namespace mirrorflow {

// An element-wise update. The gradient may be anywhere in memory.
class UpdateKernel : public Kernel {
 public:
  const UpdateKernel* AsUpdate() const final { return this; }
  // Updates elements [first, first + count) of the variables. `gradient` holds only these elements;
  // the kernel's gradient operand is not read.
  virtual void RunPart(const KernelArgs& args, const void* gradient, int64_t first,
                       int64_t count) const = 0;
};

// An update whose gradient is the matrix product aᵀ · b, which the kernel computes.
class UpdateByProductKernel : public Kernel {
 public:
  const UpdateByProductKernel* AsUpdateByProduct() const final { return this; }
  // Updates rows [first, last) of the variable. Reads `parts` instead of the operands a and b.
  virtual void RunRows(const KernelArgs& args, absl::Span<const ProductRows> parts, int64_t first,
                       int64_t last) const = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_UPDATE_KERNEL_H_
