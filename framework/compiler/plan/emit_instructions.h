// SPDX-License-Identifier: Apache-2.0
//
// EmitInstructions: emits the plan's instructions in schedule order, and uses EmitCollectives for
// the collectives.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_EMIT_INSTRUCTIONS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_EMIT_INSTRUCTIONS_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

class EmitInstructions final : public PlanPass {
 public:
  absl::string_view name() const override { return "emit_instructions"; }
  Facts needs() const override { return kStorageAssigned | kWritesGuarded; }
  Facts gives() const override { return kEmitted; }
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_EMIT_INSTRUCTIONS_H_
