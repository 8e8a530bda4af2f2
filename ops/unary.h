// SPDX-License-Identifier: Apache-2.0
//
// Element-wise ops with one operand: y[i] = f(x[i]). docs/ops/unary.md lists the formula, dtypes
// and gradient of each op.
#ifndef MIRRORFLOW_OPS_UNARY_H_
#define MIRRORFLOW_OPS_UNARY_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr char kNeg[] = "Neg";  // for passes that match these ops
inline constexpr char kRelu[] = "Relu";
inline constexpr char kRsqrt[] = "Rsqrt";
inline constexpr char kSigmoid[] = "Sigmoid";
inline constexpr char kSqrt[] = "Sqrt";
inline constexpr char kSquare[] = "Square";
inline constexpr char kTanh[] = "Tanh";
inline constexpr char kZerosLike[] = "ZerosLike";

// Shapes:   any, including empty; the result has the same shape.
// Dtypes:   half, bfloat16, float, double, and those listed below.
// Special:  as in IEEE 754 and C: Log(0) = -inf, Sqrt(-1) = NaN, Relu(NaN) = NaN; integers wrap
//           around.
// Gradient: TensorFlow's: zeros for Sign; none for Ceil, Floor, Rint and Round.
Output Neg(const Scope& scope, Output x);  // also int32, int64
Output Abs(const Scope& scope, Output x);  // also int32, int64
Output Exp(const Scope& scope, Output x);
Output Expm1(const Scope& scope, Output x);  // e^x - 1, accurate for small x
Output Log(const Scope& scope, Output x);
Output Log1p(const Scope& scope, Output x);
Output Sqrt(const Scope& scope, Output x);
Output Rsqrt(const Scope& scope, Output x);
Output Square(const Scope& scope, Output x);  // also int32, int64, uint8
Output Reciprocal(const Scope& scope, Output x);
Output Inv(const Scope& scope, Output x);  // older name of Reciprocal
Output Tanh(const Scope& scope, Output x);
Output Sigmoid(const Scope& scope, Output x);
Output Relu(const Scope& scope, Output features);  // also int32, int64, uint8
Output Sin(const Scope& scope, Output x);
Output Cos(const Scope& scope, Output x);
Output Sign(const Scope& scope, Output x);  // also int32, int64
Output Floor(const Scope& scope, Output x);
Output Ceil(const Scope& scope, Output x);
Output Round(const Scope& scope, Output x);  // halves to even; also int32, int64
Output Rint(const Scope& scope, Output x);   // halves to even

// These return bool.
Output IsFinite(const Scope& scope, Output x);
Output IsInf(const Scope& scope, Output x);
Output IsNan(const Scope& scope, Output x);
Output LogicalNot(const Scope& scope, Output x);  // takes bool

// Zeros and ones with the shape of x, for all dtypes.
Output ZerosLike(const Scope& scope, Output x);
Output OnesLike(const Scope& scope, Output x);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_UNARY_H_
