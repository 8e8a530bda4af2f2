// SPDX-License-Identifier: Apache-2.0
//
// Element-wise binary functions that supplement the arithmetic in binary.h, with NumPy
// broadcasting: products, quotients and logarithms that are defined at 0, angles and gamma
// functions.
#ifndef MIRRORFLOW_OPS_BINARY_MATH_H_
#define MIRRORFLOW_OPS_BINARY_MATH_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// Shapes:   operands of any shapes that broadcast; the result has the broadcast shape.
// Dtypes:   half, bfloat16, float, double; only float and double for NextAfter, Polygamma and
//           ApproximateEqual.
// Errors:   InvalidArgument if the shapes do not broadcast.
// Gradient: as in TensorFlow, summed over broadcast dimensions; none for `a`, the order of
//           Polygamma.
Output Atan2(const Scope& scope, Output y, Output x);        // the angle of the point (x, y)
Output MulNoNan(const Scope& scope, Output x, Output y);     // x * y, or 0 where y is 0
Output Xdivy(const Scope& scope, Output x, Output y);        // x / y, or 0 where x is 0
Output Xlogy(const Scope& scope, Output x, Output y);        // x * log y, or 0 where x is 0
Output Xlog1py(const Scope& scope, Output x, Output y);      // x * log(1 + y), or 0 where x is 0
Output NextAfter(const Scope& scope, Output x1, Output x2);  // the next value after x1 towards x2
// The (a + 1)-th derivative of log gamma at x, for integral a >= 0; otherwise NaN.
Output Polygamma(const Scope& scope, Output a, Output x);

struct ApproximateEqualOptions {
  float tolerance = 1e-5f;
};
// True where |x - y| < tolerance. The operands must have the same shape.
Output ApproximateEqual(const Scope& scope, Output x, Output y,
                        const ApproximateEqualOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_BINARY_MATH_H_
