// SPDX-License-Identifier: Apache-2.0
//
// ListDiff on the CPU. The operands are constants, so the result is computed when the plan is made.
#include "ops/list_diff.h"

#include <cstring>
#include <utility>

#include "framework/core/status.h"
#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateListDiff(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(ListDifference difference,
                      DifferenceOfLists(c.constant(0), c.constant(1), c.output_dtype(1)));
  return KernelPlan{.kernel = MakeKernel([made = std::move(difference)](const KernelArgs& args) {
                      if (made.out.bytes() > 0) {
                        std::memcpy(args.output<std::byte>(0), made.out.raw(), made.out.bytes());
                        std::memcpy(args.output<std::byte>(1), made.idx.raw(), made.idx.bytes());
                      }
                    })};
}

}  // namespace

void RegisterListDiffCpu(KernelRegistry& kernels) {
  kernels.Register("ListDiff", "CPU", CreateListDiff);
}

}  // namespace mirrorflow
