// SPDX-License-Identifier: Apache-2.0
//
// SplitIntoMicrobatches: runs the nodes of an inference step that access the largest values for a
// few rows of the batch at a time, so that these values stay in the cache. It also shrinks the
// arena, which holds the values of one micro-batch. Training steps keep activations for the
// gradients, and gain nothing.
//
// The pass splits one section: consecutive nodes, in topological order, that compute each row of
// their results from the same row of their operands, which shardings show. It replaces the section
// with a copy for each micro-batch. `_SliceRows` nodes provide a micro-batch's rows of the
// section's operands, and `_JoinRows` nodes collect the rows of its results; AssignStorage makes
// both free where it can. All copies share the section's weights, and the forms of the weights.
//
// Lym et al., "Mini-batch Serialization: CNN Training with Inter-layer Data Reuse", 2019, describes
// the technique.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_SPLIT_INTO_MICROBATCHES_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_SPLIT_INTO_MICROBATCHES_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

// The first row of a `_SliceRows` node or of a copy, counted in rows of the axis that is split.
inline constexpr char kFirstRowAttr[] = "_first_row";

class SplitIntoMicrobatches final : public PlanPass {
 public:
  absl::string_view name() const override { return "split_into_microbatches"; }
  // The pass copies nodes, so it follows the passes that replace them.
  Facts needs() const override { return kLocal | kLayersFused | kVariablesOrdered; }
  bool optional() const override { return true; }
  // Bodies are not split: their rows are those of the micro-batch, if any, that runs them.
  bool enters_bodies() const override { return true; }

 private:
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_SPLIT_INTO_MICROBATCHES_H_
