// SPDX-License-Identifier: Apache-2.0
//
// AssignStorage: decides which values share memory (storage.h).
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_ASSIGN_STORAGE_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_ASSIGN_STORAGE_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

// The outputs and attributes of a kCollective node determine its kind. With `axis`, it gathers the
// rows of that axis or, if it also has a `reduction`, reduces and scatters them. Without `axis`, it
// reduces in place.
inline bool IsBarrier(const Node& collective) { return collective.num_outputs() == 0; }
inline bool ChangesRows(const Node& collective) { return collective.has_attr("axis"); }

class AssignStorage final : public PlanPass {
 public:
  absl::string_view name() const override { return "assign_storage"; }
  // Kernels determine which outputs may be written in place; the schedule determines which node
  // reads a value last.
  Facts needs() const override { return kKernelsChosen | kScheduled; }
  Facts gives() const override { return kStorageAssigned; }
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_ASSIGN_STORAGE_H_
