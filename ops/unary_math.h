// SPDX-License-Identifier: Apache-2.0
//
// Element-wise functions with one operand that supplement unary.h: trigonometric, hyperbolic, error
// and gamma functions.
#ifndef MIRRORFLOW_OPS_UNARY_MATH_H_
#define MIRRORFLOW_OPS_UNARY_MATH_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr char kErf[] = "Erf";  // for passes that match these ops
inline constexpr char kErfc[] = "Erfc";

// Shapes:   any, including empty; the result has the same shape.
// Dtypes:   half, bfloat16, float, double.
// Special:  as in C: Asin(2) = NaN, Atanh(1) = inf, Lgamma(-1) = inf; Digamma is NaN at 0 and at
//           negative integers.
// Gradient: TensorFlow's.
Output Tan(const Scope& scope, Output x);
Output Asin(const Scope& scope, Output x);
Output Acos(const Scope& scope, Output x);
Output Atan(const Scope& scope, Output x);
Output Sinh(const Scope& scope, Output x);
Output Cosh(const Scope& scope, Output x);
Output Asinh(const Scope& scope, Output x);
Output Acosh(const Scope& scope, Output x);
Output Atanh(const Scope& scope, Output x);
Output Erf(const Scope& scope, Output x);
Output Erfc(const Scope& scope, Output x);     // 1 - Erf, accurate for large x
Output Lgamma(const Scope& scope, Output x);   // log |gamma(x)|
Output Digamma(const Scope& scope, Output x);  // the derivative of Lgamma

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_UNARY_MATH_H_
