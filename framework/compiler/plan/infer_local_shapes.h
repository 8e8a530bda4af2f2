// SPDX-License-Identifier: Apache-2.0
//
// InferLocalShapes: computes the shapes of the values on one replica from its row counts.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_INFER_LOCAL_SHAPES_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_INFER_LOCAL_SHAPES_H_

#include <cstdint>
#include <vector>

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

// Returns the shapes on a replica that has `rows[axis]` rows of each axis.
LocalShapes ShapesOfShard(const Compilation& c, const std::vector<int64_t>& rows);

class InferLocalShapes final : public PlanPass {
 public:
  absl::string_view name() const override { return "infer_local_shapes"; }
  Facts needs() const override { return kShapesKnown | kShardingsMet; }
  Facts gives() const override { return kLocal; }
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_INFER_LOCAL_SHAPES_H_
