// SPDX-License-Identifier: Apache-2.0
//
// PlanMemory: assigns an address to every storage, so that the plan can run. Storages without a
// region of their own lie in the arena, at the offsets from PackValues.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_MEMORY_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_MEMORY_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

class PlanMemory final : public PlanPass {
 public:
  absl::string_view name() const override { return "plan_memory"; }
  Facts needs() const override { return kEmitted; }
  Facts gives() const override { return kPlaced; }

 private:
  // ResourceExhausted for values that no machine can hold.
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_PLAN_MEMORY_H_
