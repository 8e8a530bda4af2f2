// SPDX-License-Identifier: Apache-2.0
//
// SplitIntoMicrobatches: runs the nodes of an inference step that access the largest values for a
// few rows of the batch at a time, so that these values stay in the cache. The arena shrinks, too:
// it holds these values for one micro-batch only. Training steps keep their activations for the
// gradients, and gain nothing.
//
// The pass splits one section: consecutive nodes, in topological order, that compute each row of
// their results from the same row of their operands, as shardings show. It replaces the section
// with a copy for each micro-batch. `_SliceRows` nodes provide a micro-batch's rows of the
// section's operands, and `_JoinRows` nodes collect the rows of its results. Neither copies
// anything: AssignStorage places the rows inside the whole value. All copies share the section's
// weights, and the forms of the weights.
//
// Lym et al., "Mini-batch Serialization: CNN Training with Inter-layer Data Reuse", 2019, describes
// the technique.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_SPLIT_INTO_MICROBATCHES_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_SPLIT_INTO_MICROBATCHES_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

class SplitIntoMicrobatches final : public PlanPass {
 public:
  absl::string_view name() const override { return "split_into_microbatches"; }
  // The pass copies nodes, so it follows the passes that replace them.
  Facts needs() const override { return kLocal | kLayersFused | kVariablesOrdered; }
  bool optional() const override { return true; }
  // Does not split the functions of branches and loops.
  bool enters_bodies() const override { return true; }

 private:
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_SPLIT_INTO_MICROBATCHES_H_
