// SPDX-License-Identifier: Apache-2.0
//
// FinishUpdatesLate: defers the finish of updates whose gradients travel between memory domains,
// unless something in this run waits for them. They finish in the next run of the plan, just before
// it first accesses memory that they write or still read. Communication can then overlap the end of
// one step and the beginning of the next.
//
// Only these updates make progress while the replicas compute. Within one domain, the replicas
// themselves run the updates, and finish them early, while the gradient is in cache.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_FINISH_UPDATES_LATE_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_FINISH_UPDATES_LATE_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

class FinishUpdatesLate final : public PlanPass {
 public:
  absl::string_view name() const override { return "finish_updates_late"; }
  Facts needs() const override { return kEmitted; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_FINISH_UPDATES_LATE_H_
