// SPDX-License-Identifier: Apache-2.0
//
// Localise: computes the shapes of values on one replica from its share of the rows.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_LOCALISE_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_LOCALISE_H_

#include <cstdint>
#include <vector>

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

// The shapes on a replica that has `rows[axis]` rows of each axis.
LocalShapes ShapesOfShare(const Compilation& c, const std::vector<int64_t>& rows);

class Localise final : public PlanPass {
 public:
  absl::string_view name() const override { return "localise"; }
  Facts needs() const override { return kShapesKnown | kShardingsMet; }
  Facts gives() const override { return kLocal; }
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_LOCALISE_H_
