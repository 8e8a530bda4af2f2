// SPDX-License-Identifier: Apache-2.0
//
// AssignStorage: decides which values share memory (storage.h).
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_ASSIGN_STORAGE_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_ASSIGN_STORAGE_H_

#include "framework/compiler/plan/plan_state.h"
#include "framework/runtime/communicator.h"

namespace mirrorflow {

// What a collective node does, told by its attributes: `reduction` reduces, and `axis` names the
// split whose rows are gathered or scattered.
CollectiveKind KindOf(const Node& collective);

class AssignStorage final : public PlanStage {
 public:
  absl::string_view name() const override { return "assign_storage"; }
  // Kernels say what may be in place, and the order who reads a value last.
  Facts needs() const override { return kKernelsChosen | kScheduled; }
  Facts gives() const override { return kStorageAssigned; }

 private:
  absl::StatusOr<bool> RunOn(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_ASSIGN_STORAGE_H_
