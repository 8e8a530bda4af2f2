// SPDX-License-Identifier: Apache-2.0
//
// OrderThreads: builds the dispatch lists and decides where one thread of a replica waits for
// another. Two instructions on different threads must be ordered if they access the same bytes and
// at least one of them writes. A write to a variable must also follow every instruction that can
// reject the step's data. A wait is omitted if other waits already imply it.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_ORDER_THREADS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_ORDER_THREADS_H_

#include "framework/compiler/plan/plan_state.h"

namespace mirrorflow {

class OrderThreads final : public PlanPass {
 public:
  absl::string_view name() const override { return "order_threads"; }
  Facts needs() const override { return kPlaced; }
  Facts gives() const override { return kThreadsOrdered; }
  absl::StatusOr<bool> Run(PlanState& s) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PLAN_ORDER_THREADS_H_
