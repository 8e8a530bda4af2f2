// SPDX-License-Identifier: Apache-2.0
//
// OrderCollectives: puts all collectives into one total order, the same on every rank. It sorts
// them by the length of the longest path to each, because the backward pass makes their operands
// ready in this order. Updates that share a gate are sorted by the longest path to their gradients.
// Only the *starts* are ordered, by a list in the Compilation and by the nodes' `_sequence`
// attribute. Control edges would make each collective wait until the previous one has ended.
#ifndef MIRRORFLOW_DISTRIBUTE_PASSES_ORDER_COLLECTIVES_H_
#define MIRRORFLOW_DISTRIBUTE_PASSES_ORDER_COLLECTIVES_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class OrderCollectives final : public Pass {
 public:
  absl::string_view name() const override { return "order_collectives"; }
  Facts needs() const override { return kCollectivesFinal | kVariablesOrdered; }
  Facts gives() const override { return kCollectivesOrdered; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PASSES_ORDER_COLLECTIVES_H_
