// SPDX-License-Identifier: Apache-2.0
//
// InferAndFold: infers global shapes and dtypes for this feed signature, and folds constants in the
// same pass, because shape arithmetic needs both. Afterwards every value has a fully defined shape
// and every static operand is constant. If that is impossible, because shapes depend on data, the
// error names the node.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_INFER_AND_FOLD_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_INFER_AND_FOLD_H_

#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "framework/compiler/pass.h"
#include "framework/compiler/passes/loop_lists.h"

namespace mirrorflow {

// Returns the value if a few nodes compute it from constants only, independently of feeds and
// variables; otherwise returns a tensor without a value.
Tensor KnownValue(Compilation& c, const Output& value);

// A list attribute of nodes that create the rows of a split value or are computed from such rows.
// Each replica holds different rows, so these nodes are not folded: a constant would be equal on
// all replicas.
inline constexpr char kRowsAttr[] = "_rows";

class InferAndFold final : public Pass {
 public:
  // `loop_bound` depends on specific ops, so a higher layer supplies it. If it is null, no loop has
  // a known bound.
  explicit InferAndFold(LoopBoundFn loop_bound = nullptr) : loop_bound_(loop_bound) {}

  absl::string_view name() const override { return "infer_and_fold"; }
  Facts needs() const override { return kPruned | kBodiesMade; }
  Facts gives() const override { return kShapesKnown; }
  // The bodies determine the shapes of the node's outputs.
  bool enters_bodies() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;

  // Sets the shapes and constants in c.values() and in the bodies' values, and leaves the graphs
  // unchanged. A node with incompatible inputs is an error unless `stand_in` is given, which then
  // sets the shapes of the node's outputs.
  using StandIn = absl::FunctionRef<void(Compilation& c, const Node& node)>;
  absl::Status InferOnly(Compilation& c, std::optional<StandIn> stand_in = std::nullopt);

 private:
  // Infer the shapes inside the node's functions from its inputs, and set the shapes of its
  // outputs.
  absl::Status InferBranches(Compilation& c, const Node& node);
  absl::Status InferLoop(Compilation& c, const Node& node);
  absl::Status InferBody(Compilation& c, const Node& node, Compilation& body,
                         const std::vector<bool>& stays, const std::vector<ListInfo>& lists);
  // Infers a loop's lists by trial, without changing the bodies.
  absl::StatusOr<LoopLists> TryLists(Compilation& c, const Node& node,
                                     const std::vector<bool>& stays);
  absl::Status CheckSame(const Node& node, int output, absl::string_view depends_on, const Shape& a,
                         const Shape& b) const;
  absl::Status SetFeedShapes(Compilation& c) const;
  absl::Status InferNode(Compilation& c, const Node& node);
  absl::Status CheckStatic(const Compilation& c, const Node& node) const;
  absl::StatusOr<bool> ReplaceByConstants(Compilation& c, Node* node) const;

  const LoopBoundFn loop_bound_;
  const StandIn* stand_in_ = nullptr;
  // Positive during a trial inference, which may lack information and must not make final
  // decisions.
  int trials_ = 0;
  int64_t trial_nodes_left_ = 1 << 22;  // nested loops multiply trials
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_INFER_AND_FOLD_H_
