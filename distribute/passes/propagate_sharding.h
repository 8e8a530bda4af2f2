// SPDX-License-Identifier: Apache-2.0
//
// PropagateSharding: decides for every value how it lies on the replicas, and for every node which
// shardings it needs of its inputs (Compilation::shardings, ::required_inputs).
//
// Forward, in topological order: of the ways in which a node can run, the one that moves the fewest
// bytes, ties by declaration order of its letters. A partial value stays partial as long as *all*
// its uses are linear; otherwise it is reduced once, for all of them: uses that cannot take it are
// found, and the sweep starts again, until nothing is new. Backward: what costs nothing to make in
// shares (constants, fills, random numbers, anything made of replicated values) is made in the
// shares that all its users need.
#ifndef MIRRORFLOW_DISTRIBUTE_PASSES_PROPAGATE_SHARDING_H_
#define MIRRORFLOW_DISTRIBUTE_PASSES_PROPAGATE_SHARDING_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class PropagateSharding final : public Pass {
 public:
  absl::string_view name() const override { return "propagate_sharding"; }
  Facts needs() const override { return kShapesKnown | kListsLowered | kReadyToShard; }
  Facts gives() const override { return kSharded; }
  bool enters_bodies() const override { return true; }  // results lie as they do in there
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PASSES_PROPAGATE_SHARDING_H_
