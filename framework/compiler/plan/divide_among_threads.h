// SPDX-License-Identifier: Apache-2.0
//
// DivideAmongThreads: divides nodes into parts that the threads of a CPU replica compute at the
// same time. A part is like a replica's shard: the op's sharding rule says which rows of which
// operands belong to it. The kernels of some ops also compute parts along other dimensions, such as
// the height of a single image (KernelPlan::divisible_dims). Every part has its own kernel, so
// kernels need not know about threads.
//
// A node has at most one part per thread, and fewer if the parts would take less time than a few
// times what it costs the threads to wait for each other. Results do not depend on the number of
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
