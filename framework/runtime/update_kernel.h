// SPDX-License-Identifier: Apache-2.0
//
// The kernels of optimizers' updates, which can update a part of a variable by itself.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_UPDATE_KERNEL_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_UPDATE_KERNEL_H_

#include <cstdint>

#include "absl/types/span.h"
#include "framework/runtime/kernel.h"
#include "framework/runtime/product_rows.h"

namespace mirrorflow {

// Works element by element, with a gradient that lies anywhere.
class UpdateKernel : public Kernel {
 public:
  // Updates elements [first, first + count) of the variables. `gradient` has those alone; the
  // operand of that name is not read.
  virtual void RunPart(const KernelArgs& args, const void* gradient, int64_t first,
                       int64_t count) const = 0;
};

// The gradient is a product aᵀ · b, which is made here.
class UpdateByProductKernel : public Kernel {
 public:
  // Updates rows [first, last) of the variable. The operands a and b are not read, but all `parts`.
  virtual void RunRows(const KernelArgs& args, absl::Span<const ProductRows> parts, int64_t first,
                       int64_t last) const = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_UPDATE_KERNEL_H_
