// SPDX-License-Identifier: Apache-2.0
//
// UpdateKernel: the kernel of an optimizer's update, which works element by element, so that a part
// of the elements can be updated by itself, with a gradient that lies anywhere.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_UPDATE_KERNEL_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_UPDATE_KERNEL_H_

#include <cstdint>

#include "framework/runtime/kernel.h"

namespace mirrorflow {

class UpdateKernel : public Kernel {
 public:
  // Updates elements [first, first + count) of the variables. `gradient` has those alone; the
  // operand of that name is not read.
  virtual void RunPart(const KernelArgs& args, const void* gradient, int64_t first,
                       int64_t count) const = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_UPDATE_KERNEL_H_
