// SPDX-License-Identifier: Apache-2.0
//
// CheckPlan: proves that the lanes of a plan, running concurrently, see the values that a single
// thread would see. It is independent of how the plan was made: it examines only instructions,
// events and memory. In a pipeline it does nothing unless CompileOptions::check_plan is set.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CHECK_PLAN_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CHECK_PLAN_H_

#include "absl/status/status.h"
#include "framework/compiler/plan/plan_state.h"
#include "framework/runtime/plan.h"

namespace mirrorflow {

class CheckPlan final : public PlanPass {
 public:
  absl::string_view name() const override { return "check_plan"; }
  Facts needs() const override { return kThreadsOrdered; }

  // Returns OK if
  //  * if two instructions access the same bytes and at least one of them writes, lanes and events
  //    run them in the order of the plan;
  //  * every byte read in the arena was written in this step and still holds the value that the
  //    reader expects;
  //  * nothing writes a form, or the variable that a form is made from;
  //  * collectives start in the order of their sequence, and each finishes once, in that order;
  //  * every event is recorded at most once, and before any wait for it.
  // Otherwise returns Internal, naming the two instructions and the bytes.
  static absl::Status Check(const Plan& plan);
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CHECK_PLAN_H_
