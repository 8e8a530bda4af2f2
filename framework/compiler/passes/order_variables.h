// SPDX-License-Identifier: Apache-2.0
//
// OrderVariables: makes the order of reads and writes of each variable explicit, as control edges.
// A read is the variable's own memory, not a copy, so what matters is when its users run. A read
// that is not ordered after a write sees the value before it: its users are put before the write.
// Where a user depends on the write, or the read is fetched, the read is marked `_copy` and takes
// its copy before the write. Writes of one variable without an order run in order of creation.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_ORDER_VARIABLES_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_ORDER_VARIABLES_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class OrderVariables final : public Pass {
 public:
  absl::string_view name() const override { return "order_variables"; }
  Facts needs() const override { return kBucketed; }
  Facts gives() const override { return kVariablesOrdered; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_ORDER_VARIABLES_H_
