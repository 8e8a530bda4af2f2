// SPDX-License-Identifier: Apache-2.0
//
// The way back from broadcasting: along which dimensions the gradient of a broadcast operand must
// be summed.
#ifndef MIRRORFLOW_OPS_BROADCAST_GRADIENT_H_
#define MIRRORFLOW_OPS_BROADCAST_GRADIENT_H_

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterBroadcastGradient(OpRegistry& ops);

// `grad`, a gradient in the shape of the result of c.op, an element-wise op whose operands
// broadcast, summed to the shape of operand `operand`. Static shapes decide where they can; where
// an unknown dimension may or may not be 1, the plan decides (BroadcastGradientArgs, Sum, Reshape).
// The last `own_dims` dimensions do not broadcast: `grad` has them as the operand does.
Output SumToOperand(const GradContext& c, int operand, Output grad, int own_dims = 0);

namespace ops {

struct BroadcastGradientArgsOutputs {
  Output r0, r1;
};

// BroadcastGradientArgs: of two shapes that broadcast, the dimensions along which the gradient of
// the one and of the other are to be summed. Shapes that are equal need none.
// Shapes:   s0, s1 vectors, constants when a plan is made; r0, r1 vectors as long as there are such
//           dimensions.
// Errors:   InvalidArgument if the shapes do not broadcast.
BroadcastGradientArgsOutputs BroadcastGradientArgs(const Scope& scope, Output s0, Output s1);

// BroadcastArgs: the shape to which two shapes broadcast, constants when a plan is made.
Output BroadcastArgs(const Scope& scope, Output s0, Output s1);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_BROADCAST_GRADIENT_H_
