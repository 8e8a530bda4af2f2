// SPDX-License-Identifier: Apache-2.0
//
// ListDiff on the CPU. The operands are constants, so the result is computed when the plan is made.
#include "ops/list_diff.h"

#include "framework/core/status.h"
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateListDiff(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const ListDifference difference,
                      DifferenceOfLists(c.constant(0), c.constant(1), c.output_dtype(1)));
  return ConstantKernel({difference.out, difference.idx});
}

}  // namespace

void RegisterListDiffCpu(KernelRegistry& kernels) {
  kernels.Register("ListDiff", "CPU", CreateListDiff);
}

}  // namespace mirrorflow
