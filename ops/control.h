// SPDX-License-Identifier: Apache-2.0
//
// Where values enter a graph, and nodes that only order others.
#ifndef MIRRORFLOW_OPS_CONTROL_H_
#define MIRRORFLOW_OPS_CONTROL_H_

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterControl(OpRegistry& ops);

namespace ops {

// Placeholder: a value that every step feeds.
// Shapes:   `shape` may have unknown dimensions (-1). Under a strategy a feed whose leading
// dimension
//           is unknown is split along it; any other is replicated.
// Gradient: none; it has no inputs.
Output Placeholder(const Scope& scope, DataType dtype,
                   const mirrorflow::Shape& shape = mirrorflow::Shape::UnknownRank());

// PlaceholderWithDefault: a value that a step may feed; where it does not, the operand.
// Shapes:   `shape` is what may be fed; the operand's must be one of those.
// Gradient: dy, for the operand.
Output PlaceholderWithDefault(const Scope& scope, Output input, const mirrorflow::Shape& shape);

// NoOp: does nothing, after the control dependencies of the scope.
Operation NoOp(const Scope& scope);

// Group: one operation that is done when all of `operations` are.
Operation Group(const Scope& scope, absl::Span<const Operation> operations);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_H_
