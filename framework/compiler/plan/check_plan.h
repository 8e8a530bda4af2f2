// SPDX-License-Identifier: Apache-2.0
//
// CheckPlan: proves of a plan that lanes which run side by side see what one thread would see. It
// knows nothing of how the plan was made: it looks at instructions, events and memory alone. In a
// pipeline it does nothing unless CompileOptions::check_plan asks for it.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CHECK_PLAN_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CHECK_PLAN_H_

#include "absl/status/status.h"
#include "framework/compiler/plan/plan_state.h"
#include "framework/runtime/plan.h"

namespace mirrorflow {

class CheckPlan final : public PlanStage {
 public:
  absl::string_view name() const override { return "check_plan"; }
  Facts needs() const override { return kPlaced; }

  // OK if
  //  * of any two instructions that touch the same bytes, one of them writing, one happens before
  //    the other, through lanes and events, in the order in which they stand;
  //  * every byte that is read in the arena was written in this step, and still holds the value
  //    that the reader wants;
  //  * collectives start in the order of their sequence, each is finished once, in that order;
  //  * every event is recorded before it is waited for, and once.
  // Otherwise Internal, naming the two instructions and the bytes.
  static absl::Status Check(const Plan& plan);

 private:
  absl::StatusOr<bool> RunOn(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_CHECK_PLAN_H_
