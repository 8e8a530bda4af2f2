// SPDX-License-Identifier: Apache-2.0
//
// Bitwise ops on integers, element-wise and with NumPy broadcasting.
#ifndef MIRRORFLOW_OPS_BITWISE_H_
#define MIRRORFLOW_OPS_BITWISE_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// Shapes:   operands of any shapes that broadcast; the result has the broadcast shape.
// Dtypes:   int32, int64, uint8.
// Special:  shift counts are clamped to [0, number of bits - 1]; right shifts keep the sign.
// Errors:   InvalidArgument if the shapes do not broadcast.
// Gradient: none.
Output BitwiseAnd(const Scope& scope, Output x, Output y);
Output BitwiseOr(const Scope& scope, Output x, Output y);
Output BitwiseXor(const Scope& scope, Output x, Output y);
Output LeftShift(const Scope& scope, Output x, Output y);
Output RightShift(const Scope& scope, Output x, Output y);
Output Invert(const Scope& scope, Output x);  // inverts every bit

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_BITWISE_H_
