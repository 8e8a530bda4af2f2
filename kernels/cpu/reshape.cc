// SPDX-License-Identifier: Apache-2.0
//
// ExpandDims, Reshape and Squeeze on the CPU, for EvaluateNode only: in a plan they are views,
// which run no kernel.
#include "framework/runtime/kernel_registry.h"
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateView(const KernelContext& c) {
  const StridedCopy all(c.output_dtype(0), {{c.output_shape(0).num_elements(), 1, 1}});
  return CopyKernel(c.output_dtype(0), {{0, 0, all}});
}

}  // namespace

void RegisterReshapeCpu(KernelRegistry& kernels) {
  for (const char* op : {"ExpandDims", "Reshape", "Squeeze"}) {
    kernels.Register(op, "CPU", CreateView);
  }
}

}  // namespace mirrorflow
