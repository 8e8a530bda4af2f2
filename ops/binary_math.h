// SPDX-License-Identifier: Apache-2.0
//
// Element-wise functions of two operands beyond the arithmetic in binary.h, with NumPy's
// broadcasting: quotients and logarithms with a value at 0, angles, gamma functions.
#ifndef MIRRORFLOW_OPS_BINARY_MATH_H_
#define MIRRORFLOW_OPS_BINARY_MATH_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterBinaryMath(OpRegistry& ops);

namespace ops {

// Shapes:   any two that broadcast; the result has the shape of both together.
// Dtypes:   float, double.
// Errors:   InvalidArgument if the shapes do not broadcast.
// Gradient: TensorFlow's, summed over what was broadcast; none with respect to the order of
//           Polygamma.
Output Atan2(const Scope& scope, Output y, Output x);        // the angle of the point (x, y)
Output MulNoNan(const Scope& scope, Output x, Output y);     // x * y, 0 where y is 0
Output Xdivy(const Scope& scope, Output x, Output y);        // x / y, 0 where x is 0
Output Xlogy(const Scope& scope, Output x, Output y);        // x * log y, 0 where x is 0
Output Xlog1py(const Scope& scope, Output x, Output y);      // x * log(1 + y), 0 where x is 0
Output NextAfter(const Scope& scope, Output x1, Output x2);  // the number next to x1 towards x2
// The derivative number a + 1 of log gamma at x, for whole a from 0 on; else NaN.
Output Polygamma(const Scope& scope, Output a, Output x);

struct ApproximateEqualOptions {
  float tolerance = 1e-5f;
};
// Whether |x - y| < tolerance: bool. The operands must be of one shape.
Output ApproximateEqual(const Scope& scope, Output x, Output y,
                        const ApproximateEqualOptions& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_BINARY_MATH_H_
