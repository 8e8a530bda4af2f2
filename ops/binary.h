// SPDX-License-Identifier: Apache-2.0
//
// Element-wise binary ops with NumPy broadcasting: arithmetic, comparisons and logic.
// docs/ops/binary.md lists the formula, dtypes, gradient and sharding of each op.
#ifndef MIRRORFLOW_OPS_BINARY_H_
#define MIRRORFLOW_OPS_BINARY_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// Op names, for passes that match these ops.
inline constexpr char kAdd[] = "Add";
inline constexpr char kAddV2[] = "AddV2";
inline constexpr char kDiv[] = "Div";
inline constexpr char kDivNoNan[] = "DivNoNan";
inline constexpr char kGreater[] = "Greater";
inline constexpr char kGreaterEqual[] = "GreaterEqual";
inline constexpr char kLess[] = "Less";
inline constexpr char kLessEqual[] = "LessEqual";
inline constexpr char kLogicalAnd[] = "LogicalAnd";
inline constexpr char kMul[] = "Mul";
inline constexpr char kPow[] = "Pow";
inline constexpr char kRealDiv[] = "RealDiv";
inline constexpr char kSquaredDifference[] = "SquaredDifference";
inline constexpr char kSub[] = "Sub";

// Shapes:   operands of any shapes that broadcast; the result has the broadcast shape.
// Dtypes:   half, bfloat16, float, double, int32, int64, uint8, except as marked. Integers wrap.
// Errors:   InvalidArgument if the shapes do not broadcast, and at run time if an integer is
//           divided by zero or raised to a negative power.
// Gradient: as in TensorFlow, summed over broadcast dimensions. FloorDiv, TruncateDiv, Mod,
//           TruncateMod, comparisons and logic have none.
Output Add(const Scope& scope, Output x, Output y);
Output AddV2(const Scope& scope, Output x, Output y);
Output Sub(const Scope& scope, Output x, Output y);
Output Mul(const Scope& scope, Output x, Output y);
Output Div(const Scope& scope, Output x, Output y);       // integers round towards zero
Output RealDiv(const Scope& scope, Output x, Output y);   // no integers
Output DivNoNan(const Scope& scope, Output x, Output y);  // no integers; 0 where y is 0
Output FloorDiv(const Scope& scope, Output x, Output y);
Output FloorMod(const Scope& scope, Output x, Output y);  // the result has the sign of y
Output TruncateDiv(const Scope& scope, Output x, Output y);
Output TruncateMod(const Scope& scope, Output x,
                   Output y);                            // the result has the sign of x; not uint8
Output Mod(const Scope& scope, Output x, Output y);      // same as TruncateMod
Output Maximum(const Scope& scope, Output x, Output y);  // NaN if either is NaN
Output Minimum(const Scope& scope, Output x, Output y);  // NaN if either is NaN
Output Pow(const Scope& scope, Output x, Output y);      // not uint8
Output SquaredDifference(const Scope& scope, Output x, Output y);  // not uint8

// These return bool.
Output Less(const Scope& scope, Output x, Output y);
Output LessEqual(const Scope& scope, Output x, Output y);
Output Greater(const Scope& scope, Output x, Output y);
Output GreaterEqual(const Scope& scope, Output x, Output y);

struct EqualOptions {
  // If true, operands that do not broadcast are an error. If false, Equal then returns the scalar
  // false, and NotEqual the scalar true.
  bool incompatible_shape_error = true;
};
Output Equal(const Scope& scope, Output x, Output y, const EqualOptions& options = {});
Output NotEqual(const Scope& scope, Output x, Output y, const EqualOptions& options = {});

// Operands and results are bool.
Output LogicalAnd(const Scope& scope, Output x, Output y);
Output LogicalOr(const Scope& scope, Output x, Output y);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_BINARY_H_
