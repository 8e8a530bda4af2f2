// SPDX-License-Identifier: Apache-2.0
//
// OrderVariables: adds control edges that make the order of each variable's reads and writes
// explicit. A read returns the variable's own memory, not a copy, so its users must run before the
// next write. Unless a read is ordered after a write, it sees the old value, and its users are
// ordered before the write. If a user depends on the write, or the read is fetched, the read is
// marked `_copy` and copies the value before the write. Writes of one variable that the graph does
// not order run in order of creation.
//
// The pass runs once in each half of the compiler. In the first half it runs before the collectives
// are ordered, because their order must respect the edges; in the second half it orders the readers
// that fusion has produced (DropReaderEdges). In the second half, a user that follows the write
// only because of the order of collectives also reads a copy.
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
