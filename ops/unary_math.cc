// SPDX-License-Identifier: Apache-2.0
#include "ops/unary_math.h"

#include "framework/core/reduced_float.h"
#include "ops/binary.h"
#include "ops/binary_math.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/elementwise_rows.h"
#include "ops/registry.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

using S = const Scope&;

// Returns 1 / sqrt(1 - x^2).
Output InverseCosOfAsin(S s, Output x) {
  const Output one = ops::ScalarConst(s, x.dtype(), 1);
  return ops::Reciprocal(s, ops::Sqrt(s, ops::Sub(s, one, ops::Square(s, x))));
}

// Returns dy * factor * e^(-x^2).
Output TimesBell(S s, Output dy, double factor, Output x) {
  const Output scale = ops::ScalarConst(s, dy.dtype(), factor);
  return ops::Mul(s, ops::Mul(s, dy, scale), ops::Exp(s, ops::Neg(s, ops::Square(s, x))));
}

constexpr double kTwoOverRootPi = 1.1283791670955126;

constexpr UnaryRow kRows[] = {
    {.name = "Acos",
     .doc = "y = the angle in [0, pi] whose cosine is x",
     .gradient = Dx([](S s, Output x, Output y, Output dy) {
       return ops::Mul(s, ops::Neg(s, dy), InverseCosOfAsin(s, x));
     }),
     .max_ulps = {4, 4}},
    {.name = "Acosh",
     .doc = "y = the non-negative number whose hyperbolic cosine is x",
     .gradient = Dx(
         [](S s, Output x, Output y, Output dy) { return ops::RealDiv(s, dy, ops::Sinh(s, y)); }),
     .max_ulps = {4, 4}},
    {.name = "Asin",
     .doc = "y = the angle in [-pi/2, pi/2] whose sine is x",
     .gradient = Dx([](S s, Output x, Output y, Output dy) {
       return ops::Mul(s, dy, InverseCosOfAsin(s, x));
     }),
     .max_ulps = {4, 4}},
    {.name = "Asinh",
     .doc = "y = the number whose hyperbolic sine is x",
     .gradient = Dx(
         [](S s, Output x, Output y, Output dy) { return ops::RealDiv(s, dy, ops::Cosh(s, y)); }),
     .max_ulps = {4, 4}},
    {.name = "Atan",
     .doc = "y = the angle in [-pi/2, pi/2] whose tangent is x",
     .gradient = Dx([](S s, Output x, Output y, Output dy) {
       const Output one = ops::ScalarConst(s, x.dtype(), 1);
       return ops::Mul(s, dy, ops::Reciprocal(s, ops::AddV2(s, one, ops::Square(s, x))));
     }),
     .max_ulps = {4, 4}},
    {.name = "Atanh",
     .doc = "y = the number whose hyperbolic tangent is x",
     .gradient = Dx([](S s, Output x, Output y, Output dy) {
       const Output one = ops::ScalarConst(s, x.dtype(), 1);
       return ops::Mul(s, dy, ops::Reciprocal(s, ops::Sub(s, one, ops::Square(s, x))));
     }),
     .max_ulps = {4, 4}},
    {.name = "Cosh",
     .doc = "y = the hyperbolic cosine of x",
     .gradient =
         Dx([](S s, Output x, Output y, Output dy) { return ops::Mul(s, dy, ops::Sinh(s, x)); }),
     .max_ulps = {4, 4}},
    {.name = "Digamma",
     .doc = "y = the derivative of log gamma(x)",
     .gradient = Dx([](S s, Output x, Output y, Output dy) {
       // Polygamma takes only float and double.
       const DataType dtype = IsReducedFloat(x.dtype()) ? DT_FLOAT : x.dtype();
       const Output wide = dtype == x.dtype() ? x : ops::Cast(s, x, dtype);
       const Output slope = ops::Polygamma(s, ops::ScalarConst(s, dtype, 1), wide);
       return ops::Mul(s, dy, dtype == x.dtype() ? slope : ops::Cast(s, slope, x.dtype()));
     }),
     .max_ulps = {1, 16}},
    {.name = "Erf",
     .doc = "y = the error function of x",
     .gradient =
         Dx([](S s, Output x, Output y, Output dy) { return TimesBell(s, dy, kTwoOverRootPi, x); }),
     .max_ulps = {6, 4}},
    {.name = "Erfc",
     .doc = "y = 1 - erf x, accurate for large x",
     .gradient = Dx(
         [](S s, Output x, Output y, Output dy) { return TimesBell(s, dy, -kTwoOverRootPi, x); }),
     .max_ulps = {6, 4}},
    {.name = "Lgamma",
     .doc = "y = log |gamma(x)|",
     .gradient =
         Dx([](S s, Output x, Output y, Output dy) { return ops::Mul(s, dy, ops::Digamma(s, x)); }),
     .max_ulps = {1, 5}},
    {.name = "Sinh",
     .doc = "y = the hyperbolic sine of x",
     .gradient =
         Dx([](S s, Output x, Output y, Output dy) { return ops::Mul(s, dy, ops::Cosh(s, x)); }),
     .max_ulps = {4, 4}},
    {.name = "Tan",
     .doc = "y = tan x, with x in radians",
     .gradient = Dx([](S s, Output x, Output y, Output dy) {
       return ops::Mul(s, ops::Square(s, ops::Reciprocal(s, ops::Cos(s, x))), dy);
     }),
     .max_ulps = {4, 4}},
};

}  // namespace

void RegisterUnaryMath(OpRegistry& ops) { RegisterUnaryRows(ops, kRows); }

namespace ops {

Output Tan(const Scope& scope, Output x) { return Apply(scope, "Tan", {x}); }
Output Asin(const Scope& scope, Output x) { return Apply(scope, "Asin", {x}); }
Output Acos(const Scope& scope, Output x) { return Apply(scope, "Acos", {x}); }
Output Atan(const Scope& scope, Output x) { return Apply(scope, "Atan", {x}); }
Output Sinh(const Scope& scope, Output x) { return Apply(scope, "Sinh", {x}); }
Output Cosh(const Scope& scope, Output x) { return Apply(scope, "Cosh", {x}); }
Output Asinh(const Scope& scope, Output x) { return Apply(scope, "Asinh", {x}); }
Output Acosh(const Scope& scope, Output x) { return Apply(scope, "Acosh", {x}); }
Output Atanh(const Scope& scope, Output x) { return Apply(scope, "Atanh", {x}); }
Output Erf(const Scope& scope, Output x) { return Apply(scope, "Erf", {x}); }
Output Erfc(const Scope& scope, Output x) { return Apply(scope, "Erfc", {x}); }
Output Lgamma(const Scope& scope, Output x) { return Apply(scope, "Lgamma", {x}); }
Output Digamma(const Scope& scope, Output x) { return Apply(scope, "Digamma", {x}); }

}  // namespace ops
}  // namespace mirrorflow
