// SPDX-License-Identifier: Apache-2.0
//
// MarkRows: marks the nodes that make rows from the shape of a split value, such as OnesLike(x) and
// Fill(Shape(x), 1), and the nodes computed from them. InferAndFold does not fold marked nodes, and
// PropagateSharding shards their rows like those of x.
//
// Rows are marked only if their split is observable, because they reach a LocalPart, a variable
// that is synchronised on read, or a fetch. All other rows become constants or take the sharding
// that their users need, which is cheaper and gives the same values.
//
// The pass infers all shapes twice, the second time with more rows per axis. A dimension that grows
// by the factor of an axis consists of the rows of that axis, whatever arithmetic computes its
// size. If a node accepts only one number of rows, its outputs grow as its sharding rule says. Rows
// that are cut from a whole value or copied to one (Slice, Tile) are not marked: such a value stays
// whole.
#ifndef MIRRORFLOW_DISTRIBUTE_PASSES_MARK_ROWS_H_
#define MIRRORFLOW_DISTRIBUTE_PASSES_MARK_ROWS_H_

#include <optional>
#include <vector>

#include "framework/compiler/pass.h"
#include "framework/compiler/passes/loop_lists.h"

namespace mirrorflow {

// Returns the sizes of the axes: the distinct leading dimensions of the split feeds, in feed order.
// InvalidArgument if there are more than kMaxAxes.
absl::StatusOr<std::vector<int64_t>> FeedAxes(const Compilation& c);

// Returns the sharding of the rows that a marked node creates; empty for all other nodes.
std::optional<Sharded> MadeRows(const Node& node);

class MarkRows final : public Pass {
 public:
  explicit MarkRows(LoopBoundFn loop_bound) : loop_bound_(loop_bound) {}

  absl::string_view name() const override { return "mark_rows"; }
  Facts needs() const override { return kPruned | kBodiesMade; }
  bool enters_bodies() const override { return true; }  // the rows in bodies are those of the step
  absl::StatusOr<bool> Run(Compilation& c) override;

 private:
  const LoopBoundFn loop_bound_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PASSES_MARK_ROWS_H_
