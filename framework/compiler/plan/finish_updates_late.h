// SPDX-License-Identifier: Apache-2.0
//
// FinishUpdatesLate: updates whose gradients travel between memory domains are finished in the next
// run of the plan, where it first uses what they write or still read, unless something in this run
// waits for them. The network then has the end of one step and the beginning of the next.
//
// Only these updates progress while the replicas compute. Within one domain they need the replicas
// themselves, and are finished early, while the gradient is in the cache.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_FINISH_UPDATES_LATE_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_FINISH_UPDATES_LATE_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

class FinishUpdatesLate final : public PlanPass {
 public:
  absl::string_view name() const override { return "finish_updates_late"; }
  Facts needs() const override { return kEmitted; }
  Facts gives() const override { return 0; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_FINISH_UPDATES_LATE_H_
