// SPDX-License-Identifier: Apache-2.0
//
// OrderCollectives: puts all collectives into one total order, the same on every rank. They are
// sorted by the length of the longest path to each, which is the order in which the backward pass
// makes their operands ready. Updates behind the same gate are sorted by the longest path to their
// gradients. Only the *starts* are ordered, in a list in the Compilation and an attribute
// `_sequence` of the nodes: a control edge would order the end of one collective before the start
// of the next.
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
