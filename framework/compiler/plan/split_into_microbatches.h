// SPDX-License-Identifier: Apache-2.0
//
// SplitIntoMicrobatches: splits the batch of an inference step into micro-batches for the nodes
// with the largest operands and results, so that these stay in the cache. This also shrinks the
// arena, which then holds such values for one micro-batch only. Training steps do not benefit,
// because they keep their activations for the backward pass.
//
// The pass splits one section: consecutive nodes, in topological order, whose shardings show that
// each row of a result depends only on the same row of the operands. It clones the section for each
// micro-batch. A `_SliceRows` node is a slice of an operand, and a `_JoinRows` node concatenates
// the slices of a result. Neither copies data: AssignStorage makes each slice a part of the whole
// tensor's memory. The clones share the section's weights, and the forms of the weights.
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
  // Runs after the passes that fuse or replace nodes, because it clones them.
  Facts needs() const override { return kLocal | kLayersFused | kVariablesOrdered; }
  bool optional() const override { return true; }
  // The bodies of branches and loops are not split.
  bool enters_bodies() const override { return true; }

 private:
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_SPLIT_INTO_MICROBATCHES_H_
