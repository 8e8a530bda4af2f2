// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_IDENTITY_H_
#define MIRRORFLOW_OPS_IDENTITY_H_

#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr absl::string_view kIdentityN = "IdentityN";

// Identity: its operand under a different name. It costs nothing at run time.
// Gradient: dy.
Output Identity(const Scope& scope, Output input);

// StopGradient: its operand, treated as a constant by gradients, as with tf.stop_gradient and
// PyTorch's detach().
Output StopGradient(const Scope& scope, Output input);

// Snapshot: same as Identity.
Output Snapshot(const Scope& scope, Output input);

// PreventGradient: its operand. Gradients() returns InvalidArgument if a gradient would flow
// through it; `message` may explain why.
Output PreventGradient(const Scope& scope, Output input, absl::string_view message = "");

// EnsureShape: its operand, whose shape must be compatible with `shape`. The result has all
// dimensions that are known in either shape.
// Errors:   InvalidArgument if the shapes are incompatible.
// Gradient: dy.
Output EnsureShape(const Scope& scope, Output input, const mirrorflow::Shape& shape);

// IdentityN: its operands, in order. Gradient: dy.
std::vector<Output> IdentityN(const Scope& scope, absl::Span<const Output> inputs);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_IDENTITY_H_
