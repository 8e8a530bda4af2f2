// SPDX-License-Identifier: Apache-2.0
//
// Helpers and ops for the gradient of broadcasting: they find the dimensions along which a
// broadcast operand's gradient must be summed.
#ifndef MIRRORFLOW_OPS_BROADCAST_GRADIENT_H_
#define MIRRORFLOW_OPS_BROADCAST_GRADIENT_H_

#include <array>
#include <cstdint>
#include <vector>

#include "framework/graph/scope.h"

namespace mirrorflow {

// Sums `grad`, which has c.op's output shape, to the shape of operand `operand` of c.op, whose
// operands broadcast. If the static shapes do not determine the dimensions to sum, because an
// unknown dimension may be 1, the graph computes them (BroadcastGradientArgs, Sum, Reshape). The
// last `own_dims` dimensions do not broadcast: they are equal in `grad` and the operand.
Output SumToOperand(const GradContext& c, int operand, Output grad, int own_dims = 0);

// Returns the result of BroadcastGradientArgs for two fully defined shapes that broadcast.
std::array<std::vector<int64_t>, 2> BroadcastAxes(const Shape& s0, const Shape& s1);

namespace ops {

struct BroadcastGradientArgsOutputs {
  Output r0, r1;
};

// BroadcastGradientArgs: for two shapes that broadcast, the dimensions along which the gradient of
// the first operand (r0) and of the second operand (r1) must be summed. For equal shapes, r0 and r1
// are empty.
// Shapes:   s0 and s1 are vectors that must be known when the step is compiled; r0 and r1 are
//           vectors with one element per dimension to sum.
// Errors:   InvalidArgument if the shapes do not broadcast.
BroadcastGradientArgsOutputs BroadcastGradientArgs(const Scope& scope, Output s0, Output s1);

// BroadcastArgs: the shape to which the shapes s0 and s1 broadcast. Both must be known when the
// step is compiled.
Output BroadcastArgs(const Scope& scope, Output s0, Output s1);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_BROADCAST_GRADIENT_H_
