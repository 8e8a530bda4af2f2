// SPDX-License-Identifier: Apache-2.0
//
// MarkRows: marks the nodes that create rows from the shape of a split value x, such as OnesLike(x)
// and Fill(Shape(x), 1), and the nodes computed from them. InferAndFold does not fold marked nodes,
// and PropagateSharding shards their rows like the rows of x.
//
// Rows are marked only if their split is observable: if they reach a LocalPart, a variable that is
// synchronised on read, or a fetch. All other rows become constants or take the sharding that their
// users need, which is cheaper and gives the same values.
//
// The pass infers all shapes twice, the second time with more rows per axis. If a dimension grows
// by an axis's factor, it consists of that axis's rows, whatever arithmetic computes its size. If a
// node accepts only one row count, its sharding rule determines how its outputs grow. Rows that are
// cut from a whole value (Slice) or copied to one (Tile) are not marked: such a value stays whole.
#ifndef MIRRORFLOW_DISTRIBUTE_PASSES_MARK_ROWS_H_
#define MIRRORFLOW_DISTRIBUTE_PASSES_MARK_ROWS_H_

#include <optional>
#include <vector>

#include "framework/compiler/pass.h"
#include "framework/compiler/passes/loop_lists.h"

namespace mirrorflow {

// Returns the sizes of the axes: the distinct leading dimensions of the split feeds, in feed order.
// Returns InvalidArgument for more than kMaxAxes.
absl::StatusOr<std::vector<int64_t>> FeedAxes(const Compilation& c);

// Returns the sharding of the rows that a marked node creates, or nullopt if the node creates none.
std::optional<Sharded> MadeRows(const Node& node);

class MarkRows final : public Pass {
 public:
  explicit MarkRows(LoopBoundFn loop_bound) : loop_bound_(loop_bound) {}

  absl::string_view name() const override { return "mark_rows"; }
  Facts needs() const override { return kPruned | kBodiesMade; }
  bool enters_bodies() const override { return true; }  // bodies work on the step's rows
  absl::StatusOr<bool> Run(Compilation& c) override;

 private:
  const LoopBoundFn loop_bound_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PASSES_MARK_ROWS_H_
