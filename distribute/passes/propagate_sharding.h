// SPDX-License-Identifier: Apache-2.0
//
// PropagateSharding: chooses the sharding of every value, and the shardings that every node
// requires of its inputs (Compilation::shardings, ::required_inputs).
//
// The forward sweep visits the nodes in topological order and chooses, for each, the candidate that
// moves the fewest bytes; ties go to the first letter in declaration order. A partial value stays
// partial as long as *all* its uses are linear. Otherwise it is reduced once, for all uses. If a
// use cannot take a partial value that a node visited earlier in the sweep took unreduced, another
// sweep follows, until nothing changes. The backward sweep shards values whose shards each replica
// can compute for free (constants, fills, random numbers, anything computed from replicated
// values), if all their users need the same shards.
#ifndef MIRRORFLOW_DISTRIBUTE_PASSES_PROPAGATE_SHARDING_H_
#define MIRRORFLOW_DISTRIBUTE_PASSES_PROPAGATE_SHARDING_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class PropagateSharding final : public Pass {
 public:
  absl::string_view name() const override { return "propagate_sharding"; }
  Facts needs() const override { return kShapesKnown | kListsLowered | kReadyToShard; }
  Facts gives() const override { return kSharded; }
  bool enters_bodies() const override { return true; }  // bodies determine their results' shardings
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PASSES_PROPAGATE_SHARDING_H_
