// SPDX-License-Identifier: Apache-2.0
//
// DivideAmongThreads: divides nodes into parts that the threads of a CPU replica compute in
// parallel. A part is like a replica's shard: the op's sharding rule determines which rows of which
// operands belong to it. Some kernels can also compute parts along other dimensions, such as the
// height of a single image (KernelPlan::divisible_dims). Each part has its own kernel, so kernels
// do not need to know about threads.
//
// A node has at most one part per thread. It has fewer if the parts would be too short to be worth
// synchronising the threads (CompileOptions::min_part_ns). Results do not depend on the number of
// parts.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_DIVIDE_AMONG_THREADS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_DIVIDE_AMONG_THREADS_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

class DivideAmongThreads final : public PlanPass {
 public:
  absl::string_view name() const override { return "divide_among_threads"; }
  Facts needs() const override { return kKernelsChosen; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_DIVIDE_AMONG_THREADS_H_
