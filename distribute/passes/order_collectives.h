// SPDX-License-Identifier: Apache-2.0
//
// OrderCollectives: one total order of all collectives, the same on every rank: by the length of
// the longest path to each, which is the order in which the backward pass makes their operands
// ready; of updates that wait for one gate, by the longest path to their gradients. It orders their
// *starts* only (a control edge would order the end of one before the start of the next), so it is
// a list in the Compilation and an attribute `_sequence` on the nodes.
#ifndef MIRRORFLOW_DISTRIBUTE_PASSES_ORDER_COLLECTIVES_H_
#define MIRRORFLOW_DISTRIBUTE_PASSES_ORDER_COLLECTIVES_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class OrderCollectives final : public Pass {
 public:
  absl::string_view name() const override { return "order_collectives"; }
  Facts needs() const override { return kBucketed | kVariablesOrdered; }
  Facts gives() const override { return kCollectivesOrdered; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PASSES_ORDER_COLLECTIVES_H_
