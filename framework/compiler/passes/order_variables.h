// SPDX-License-Identifier: Apache-2.0
//
// OrderVariables: makes the order of reads and writes of each variable explicit, as control edges.
// A read is the variable's own memory, not a copy, so it matters when its users run. A read that is
// not ordered after a write sees the value before it, so its users are ordered before the write. If
// a user depends on the write, or the read is fetched, the read is marked `_copy` and copies the
// value before the write. Unordered writes of one variable run in order of creation.
//
// It runs once in each half of the compiler: in the first before the collectives are ordered, which
// must respect the edges, and in the second on the readers after fusion (DropReaderEdges). There, a
// user that comes after the write only by the order of collectives reads a copy too.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_ORDER_VARIABLES_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_ORDER_VARIABLES_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class OrderVariables final : public Pass {
 public:
  absl::string_view name() const override { return "order_variables"; }
  Facts needs() const override { return kCollectivesFinal; }
  Facts gives() const override { return kVariablesOrdered; }
  Facts ends() const override { return kReadersFree; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_ORDER_VARIABLES_H_
