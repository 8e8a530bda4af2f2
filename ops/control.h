// SPDX-License-Identifier: Apache-2.0
//
// Ops that bring values into a graph, and ops that only order other ops.
#ifndef MIRRORFLOW_OPS_CONTROL_H_
#define MIRRORFLOW_OPS_CONTROL_H_

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// Placeholder: a value that every step must feed.
// Shapes:   `shape` may have unknown dimensions (-1). Under a strategy, a feed whose leading
//           dimension is unknown is split along that dimension over the replicas; every replica
//           gets the whole of any other feed.
// Gradient: none; the op has no inputs.
Output Placeholder(const Scope& scope, DataType dtype,
                   const mirrorflow::Shape& shape = mirrorflow::Shape::UnknownRank());

// PlaceholderWithDefault: a value that a step may feed. If a step does not feed it, its value is
// the operand.
// Shapes:   feeds must match `shape`, and the operand must be compatible with it.
// Gradient: dy, for the operand.
Output PlaceholderWithDefault(const Scope& scope, Output input, const mirrorflow::Shape& shape);

// NoOp: does nothing; it runs after the scope's control dependencies.
Operation NoOp(const Scope& scope);

// Group: an operation that finishes when all of `operations` have finished. Pass it to
// Session::Prepare as a target to run all of them.
Operation Group(const Scope& scope, absl::Span<const Operation> operations);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_CONTROL_H_
