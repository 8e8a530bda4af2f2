// SPDX-License-Identifier: Apache-2.0
//
// InferAndFold: global shapes and dtypes for this feed signature, folding constants as it goes,
// because shape arithmetic needs both. Afterwards every value has a fully defined shape and every
// static operand is a constant; a graph for which that is impossible has shapes that depend on
// data, which is an error that names the node.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_INFER_AND_FOLD_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_INFER_AND_FOLD_H_

#include <vector>

#include "framework/compiler/pass.h"
#include "framework/compiler/passes/loop_lists.h"

namespace mirrorflow {

// What the value is whatever is fed and whatever variables hold: what constants alone make of it,
// by a few nodes. Nothing if that is not so.
Tensor KnownValue(Compilation& c, const Output& value);

class InferAndFold final : public Pass {
 public:
  // `loop_bound` names ops, so it comes from above; null: no loop's bound is known.
  explicit InferAndFold(LoopBoundFn loop_bound = nullptr) : loop_bound_(loop_bound) {}

  absl::string_view name() const override { return "infer_and_fold"; }
  Facts needs() const override { return kPruned | kBodiesMade; }
  Facts gives() const override { return kShapesKnown; }
  // They say what shapes the node's outputs have.
  bool enters_bodies() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;

 private:
  // Infer what the functions make of the node's inputs, which are known, and give the node's
  // outputs their shapes.
  absl::Status InferBranches(Compilation& c, const Node& node);
  absl::Status InferLoop(Compilation& c, const Node& node);
  absl::Status InferBody(Compilation& c, const Node& node, Compilation& body,
                         const std::vector<bool>& stays, const std::vector<ListInfo>& lists);
  // Finds out, without changing the bodies, what the loop's lists are.
  absl::StatusOr<LoopLists> TryLists(Compilation& c, const Node& node,
                                     const std::vector<bool>& stays);
  absl::Status CheckSame(const Node& node, int output, absl::string_view depends_on, const Shape& a,
                         const Shape& b) const;
  absl::Status SetFeedShapes(Compilation& c) const;
  absl::Status CheckStatic(const Compilation& c, const Node& node) const;
  absl::StatusOr<bool> ReplaceByConstants(Compilation& c, Node* node) const;

  const LoopBoundFn loop_bound_;
  // More than 0: a trial, which may know too little and takes nothing for final.
  int trials_ = 0;
  int64_t trial_nodes_left_ = 1 << 22;  // loops in loops multiply trials
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_INFER_AND_FOLD_H_
