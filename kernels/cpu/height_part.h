// SPDX-License-Identifier: Apache-2.0
//
// HeightPart: divides the output of a convolution or pool over a single NHWC image among threads.
// Each thread computes some rows of pixels, and reads the image rows under their windows.
#ifndef MIRRORFLOW_KERNELS_CPU_HEIGHT_PART_H_
#define MIRRORFLOW_KERNELS_CPU_HEIGHT_PART_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "framework/runtime/kernel.h"
#include "kernels/cpu/epilogue.h"
#include "ops/window.h"

namespace mirrorflow {

class HeightPart {
 public:
  // Returns the context to read image and window sizes from. In a part's own context, output 0 is
  // only the part.
  static const KernelContext& Undivided(const KernelContext& c) {
    return c.part() != nullptr ? c.undivided() : c;
  }
  // Returns the output rows that the kernel computes, or null if it computes all of them.
  static const DimRange* Of(const KernelContext& c) {
    return c.part() != nullptr && c.part()->dim == kHeight ? c.part() : nullptr;
  }

  // `batch`, `nchw` and `h`, the window along the height, describe the undivided node.
  HeightPart(const KernelContext& c, int64_t batch, bool nchw, const Window& h)
      : part_(Of(c)), undivided_(h), divisible_(batch == 1 && !nchw && h.covers_inputs()) {}

  // Returns the window along the height, restricted to the rows that the kernel computes.
  Window window() const {
    return part_ != nullptr ? undivided_.At(part_->first, part_->count) : undivided_;
  }
  // Completes the plan of a kernel that computes these rows. The first row of every part is a
  // multiple of `multiple`. If `adds` is true, the kernel's epilogue adds an input.
  void Complete(bool adds, int64_t multiple, KernelPlan* plan) const {
    plan->divisible_dims.clear();
    if (divisible_) {
      plan->divisible_dims = {{.dim = kHeight, .multiple = multiple, .divided_inputs = {0}}};
    }
    if (part_ == nullptr) return;
    plan->part_inputs = {{0, {kHeight, undivided_.first(part_->first), window().in}}};
    if (adds) plan->part_inputs.push_back({Epilogue::kAddendInput, *part_});
  }

 private:
  static constexpr int kHeight = 1;

  const DimRange* part_;  // null if the kernel computes all rows
  Window undivided_;
  bool divisible_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_HEIGHT_PART_H_
