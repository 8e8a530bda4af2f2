// SPDX-License-Identifier: Apache-2.0
//
// ReduceInUpdates: merges an all-reduce and the optimizer's update of its result into one
// collective, if the reduced gradient has no other use and the ranks share memory. Each rank
// reduces its shard of the gradient chunk by chunk, updates the matching chunk of the variable
// while it is in cache, and writes the updated values to all ranks. The reduced gradient, which is
// as large as the variable, is never stored, and every element of the variable is updated only
// once. A variable that the replicas share (VariableLayout) is updated shard by shard even if its
// gradient is already whole.
//
// Source: S. Rajbhandari et al., "ZeRO", 2020: the partitioned optimizer (reduce-scatter, update,
// all-gather), which runs here in one pass over memory.
#ifndef MIRRORFLOW_DISTRIBUTE_PASSES_REDUCE_IN_UPDATES_H_
#define MIRRORFLOW_DISTRIBUTE_PASSES_REDUCE_IN_UPDATES_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class ReduceInUpdates final : public Pass {
 public:
  absl::string_view name() const override { return "reduce_in_updates"; }
  Facts needs() const override { return kShardingsMet | kDtypesFinal; }
  Facts gives() const override { return kReductionsKnown; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PASSES_REDUCE_IN_UPDATES_H_
