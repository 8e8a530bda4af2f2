// SPDX-License-Identifier: Apache-2.0
#include "ops/unary.h"

#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/elementwise_rows.h"
#include "ops/gradients.h"
#include "ops/registry.h"
#include "ops/unary_grad.h"

namespace mirrorflow {
namespace {

constexpr char kAnyOrList[] =
    "T: {half, bfloat16, float, double, int32, int64, uint8, bool, variant}";

using S = const Scope&;

constexpr UnaryRow kRows[] = {
    {.name = "Abs",
     .doc = "y = |x|",
     .dtypes = kSigned,
     .gradient =
         Dx([](S s, Output x, Output y, Output dy) { return ops::Mul(s, dy, ops::Sign(s, x)); })},
    {.name = "Ceil", .doc = "y = the smallest integer not less than x", .gradient = ZeroGradients},
    {.name = "Cos",
     .doc = "y = cos x, with x in radians",
     .gradient = Dx([](S s, Output x, Output y, Output dy) {
       return ops::Neg(s, ops::Mul(s, dy, ops::Sin(s, x)));
     }),
     .max_ulps = {4, 4}},
    {.name = "Exp",
     .doc = "y = e^x",
     .gradient = Dx([](S s, Output x, Output y, Output dy) { return ops::Mul(s, dy, y); }),
     .traits = kNeedsPrecision,
     .max_ulps = {4, 4}},
    {.name = "Expm1",
     .doc = "y = e^x - 1, accurate for small x",
     .gradient =
         Dx([](S s, Output x, Output y, Output dy) { return ops::Mul(s, dy, ops::Exp(s, x)); }),
     .traits = kNeedsPrecision,
     .max_ulps = {4, 4}},
    {.name = "Floor",
     .doc = "y = the largest integer not greater than x",
     .gradient = ZeroGradients},
    {.name = "Inv", .doc = "y = 1 / x", .gradient = Dx([](S s, Output x, Output y, Output dy) {
                                          return ops::ReciprocalGrad(s, y, dy);
                                        })},
    {.name = "IsFinite",
     .doc = "y = whether x is neither infinite nor NaN",
     .no_gradient = "the output is bool",
     .output = "y: bool"},
    {.name = "IsInf",
     .doc = "y = whether x is infinite",
     .no_gradient = "the output is bool",
     .output = "y: bool"},
    {.name = "IsNan",
     .doc = "y = whether x is NaN",
     .no_gradient = "the output is bool",
     .output = "y: bool"},
    {.name = "Log",
     .doc = "y = the natural logarithm of x",
     .gradient = Dx(
         [](S s, Output x, Output y, Output dy) { return ops::Mul(s, dy, ops::Reciprocal(s, x)); }),
     .traits = kNeedsPrecision,
     .max_ulps = {4, 4}},
    {.name = "Log1p",
     .doc = "y = log(1 + x), accurate for small x",
     .gradient = Dx([](S s, Output x, Output y, Output dy) {
       const Output one = ops::ScalarConst(s, x.dtype(), 1);
       return ops::Mul(s, dy, ops::Reciprocal(s, ops::AddV2(s, one, x)));
     }),
     .traits = kNeedsPrecision,
     .max_ulps = {4, 4}},
    {.name = "LogicalNot",
     .doc = "y = not x",
     .dtypes = nullptr,
     .no_gradient = "the output is bool",
     .input = "x: bool",
     .output = "y: bool"},
    {.name = "Neg",
     .doc = "y = -x",
     .dtypes = kSigned,
     .gradient = Dx([](S s, Output x, Output y, Output dy) { return ops::Neg(s, dy); }),
     .sharding = JointlyLinearSharding},
    {.name = "OnesLike",
     .doc = "y = ones in the shape of x",
     .dtypes = kAny,
     .gradient = ZeroGradients,
     .role = OpRole::kOnesLike},
    {.name = "Reciprocal",
     .doc = "y = 1 / x",
     .gradient =
         Dx([](S s, Output x, Output y, Output dy) { return ops::ReciprocalGrad(s, y, dy); })},
    {.name = "Relu",
     .doc = "activations = max(features, 0)",
     .dtypes = kNumeric,
     .gradient = Dx([](S s, Output x, Output y, Output dy) { return ops::ReluGrad(s, dy, y); }),
     .input = "features: T",
     .output = "activations: T"},
    {.name = "Rint",
     .doc = "y = the integer nearest to x; halves round to even",
     .gradient = ZeroGradients},
    {.name = "Round",
     .doc = "y = the integer nearest to x; halves round to even",
     .dtypes = kSigned,
     .gradient = ZeroGradients},
    {.name = "Rsqrt",
     .doc = "y = 1 / sqrt(x)",
     .gradient = Dx([](S s, Output x, Output y, Output dy) { return ops::RsqrtGrad(s, y, dy); }),
     .max_ulps = {2, 2}},
    {.name = "Sigmoid",
     .doc = "y = 1 / (1 + e^-x)",
     .gradient = Dx([](S s, Output x, Output y, Output dy) { return ops::SigmoidGrad(s, y, dy); }),
     .max_ulps = {4, 4}},
    {.name = "Sign",
     .doc = "y = -1, 0 or 1 if x is negative, zero or positive",
     .dtypes = kSigned,
     .gradient = Dx([](S s, Output x, Output y, Output dy) { return ops::ZerosLike(s, x); })},
    {.name = "Sin",
     .doc = "y = sin x, with x in radians",
     .gradient =
         Dx([](S s, Output x, Output y, Output dy) { return ops::Mul(s, dy, ops::Cos(s, x)); }),
     .max_ulps = {4, 4}},
    {.name = "Sqrt",
     .doc = "y = the square root of x",
     .gradient = Dx([](S s, Output x, Output y, Output dy) { return ops::SqrtGrad(s, y, dy); })},
    {.name = "Square",
     .doc = "y = x * x",
     .dtypes = kNumeric,
     .gradient = Dx([](S s, Output x, Output y, Output dy) {
       const Output two = ops::ScalarConst(s, x.dtype(), 2);
       return ops::Mul(s, dy, ops::Mul(s, two, x));
     })},
    {.name = "Tanh",
     .doc = "y = the hyperbolic tangent of x",
     .gradient = Dx([](S s, Output x, Output y, Output dy) { return ops::TanhGrad(s, y, dy); }),
     .max_ulps = {5, 4}},
    // ZerosLike is linear: zeros of a partial value are partial zeros, and its input is never read,
    // so reducing it would be wasted work.
    {.name = "ZerosLike",
     .doc = "y = zeros in the shape of x",
     .dtypes = kAnyOrList,
     .gradient = ZeroGradients,
     .sharding = JointlyLinearSharding},
};

}  // namespace

void RegisterUnary(OpRegistry& ops) { RegisterUnaryRows(ops, kRows); }

namespace ops {

Output Neg(const Scope& scope, Output x) { return Apply(scope, "Neg", {x}); }
Output Abs(const Scope& scope, Output x) { return Apply(scope, "Abs", {x}); }
Output Exp(const Scope& scope, Output x) { return Apply(scope, "Exp", {x}); }
Output Log(const Scope& scope, Output x) { return Apply(scope, "Log", {x}); }
Output Log1p(const Scope& scope, Output x) { return Apply(scope, "Log1p", {x}); }
Output Sqrt(const Scope& scope, Output x) { return Apply(scope, "Sqrt", {x}); }
Output Rsqrt(const Scope& scope, Output x) { return Apply(scope, "Rsqrt", {x}); }
Output Square(const Scope& scope, Output x) { return Apply(scope, "Square", {x}); }
Output Reciprocal(const Scope& scope, Output x) { return Apply(scope, "Reciprocal", {x}); }
Output Tanh(const Scope& scope, Output x) { return Apply(scope, "Tanh", {x}); }
Output Sigmoid(const Scope& scope, Output x) { return Apply(scope, "Sigmoid", {x}); }
Output Relu(const Scope& scope, Output features) { return Apply(scope, "Relu", {features}); }
Output Sin(const Scope& scope, Output x) { return Apply(scope, "Sin", {x}); }
Output Cos(const Scope& scope, Output x) { return Apply(scope, "Cos", {x}); }
Output Sign(const Scope& scope, Output x) { return Apply(scope, "Sign", {x}); }
Output Ceil(const Scope& scope, Output x) { return Apply(scope, "Ceil", {x}); }
Output Round(const Scope& scope, Output x) { return Apply(scope, "Round", {x}); }
Output Rint(const Scope& scope, Output x) { return Apply(scope, "Rint", {x}); }
Output Expm1(const Scope& scope, Output x) { return Apply(scope, "Expm1", {x}); }
Output Inv(const Scope& scope, Output x) { return Apply(scope, "Inv", {x}); }
Output IsInf(const Scope& scope, Output x) { return Apply(scope, "IsInf", {x}); }
Output IsNan(const Scope& scope, Output x) { return Apply(scope, "IsNan", {x}); }
Output Floor(const Scope& scope, Output x) { return Apply(scope, "Floor", {x}); }
Output IsFinite(const Scope& scope, Output x) { return Apply(scope, "IsFinite", {x}); }
Output LogicalNot(const Scope& scope, Output x) { return Apply(scope, "LogicalNot", {x}); }
Output ZerosLike(const Scope& scope, Output x) { return Apply(scope, "ZerosLike", {x}); }
Output OnesLike(const Scope& scope, Output x) { return Apply(scope, "OnesLike", {x}); }

}  // namespace ops
}  // namespace mirrorflow
