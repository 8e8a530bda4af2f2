// SPDX-License-Identifier: Apache-2.0
//
// Element-wise ops of two operands, with NumPy's broadcasting: arithmetic, comparisons, logic. The
// table in binary.cc says formula, dtypes, linearity and gradient of each.
#ifndef MIRRORFLOW_OPS_BINARY_H_
#define MIRRORFLOW_OPS_BINARY_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterBinary(OpRegistry& ops);

namespace ops {

// For passes that are about them.
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
inline constexpr char kRealDiv[] = "RealDiv";
inline constexpr char kSub[] = "Sub";

// Shapes:   any two that broadcast; the result has the shape of both together.
// Dtypes:   float, double, int32, int64, uint8, unless said otherwise. Integers wrap around.
// Errors:   InvalidArgument if the shapes do not broadcast; at run time for an integer divided by
//           zero or raised to a negative power.
// Gradient: TensorFlow's, summed over what was broadcast; none of FloorDiv, TruncateDiv, Mod,
//           TruncateMod, comparisons and logic.
Output Add(const Scope& scope, Output x, Output y);
Output AddV2(const Scope& scope, Output x, Output y);
Output Sub(const Scope& scope, Output x, Output y);
Output Mul(const Scope& scope, Output x, Output y);
Output Div(const Scope& scope, Output x, Output y);       // of integers: towards zero
Output RealDiv(const Scope& scope, Output x, Output y);   // float, double
Output DivNoNan(const Scope& scope, Output x, Output y);  // float, double; 0 where y is 0
Output FloorDiv(const Scope& scope, Output x, Output y);
Output FloorMod(const Scope& scope, Output x, Output y);  // of the sign of y
Output TruncateDiv(const Scope& scope, Output x, Output y);
Output TruncateMod(const Scope& scope, Output x, Output y);  // of the sign of x; not uint8
Output Mod(const Scope& scope, Output x, Output y);          // the same
Output Maximum(const Scope& scope, Output x, Output y);      // NaN if either is
Output Minimum(const Scope& scope, Output x, Output y);
Output Pow(const Scope& scope, Output x, Output y);                // not uint8
Output SquaredDifference(const Scope& scope, Output x, Output y);  // not uint8

// The results are bool.
Output Less(const Scope& scope, Output x, Output y);
Output LessEqual(const Scope& scope, Output x, Output y);
Output Greater(const Scope& scope, Output x, Output y);
Output GreaterEqual(const Scope& scope, Output x, Output y);

struct EqualOptions {
  // False: operands that do not broadcast are unequal, which is a scalar, in place of an error.
  bool incompatible_shape_error = true;
};
Output Equal(const Scope& scope, Output x, Output y, const EqualOptions& options = {});
Output NotEqual(const Scope& scope, Output x, Output y, const EqualOptions& options = {});

// Of bool.
Output LogicalAnd(const Scope& scope, Output x, Output y);
Output LogicalOr(const Scope& scope, Output x, Output y);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_BINARY_H_
