// SPDX-License-Identifier: Apache-2.0
//
// The bits of integers: element-wise ops of one and of two operands, with NumPy's broadcasting.
#ifndef MIRRORFLOW_OPS_BITWISE_H_
#define MIRRORFLOW_OPS_BITWISE_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterBitwise(OpRegistry& ops);

namespace ops {

// Shapes:   any two that broadcast; the result has the shape of both together.
// Dtypes:   int32, int64, uint8.
// Special:  a shift by less than 0 bits is one by 0, one by more than there are is one by all but
//           one; a signed number keeps its sign on the way to the right.
// Errors:   InvalidArgument if the shapes do not broadcast.
// Gradient: none.
Output BitwiseAnd(const Scope& scope, Output x, Output y);
Output BitwiseOr(const Scope& scope, Output x, Output y);
Output BitwiseXor(const Scope& scope, Output x, Output y);
Output LeftShift(const Scope& scope, Output x, Output y);
Output RightShift(const Scope& scope, Output x, Output y);
Output Invert(const Scope& scope, Output x);  // every bit the other way

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_BITWISE_H_
