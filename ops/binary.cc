// SPDX-License-Identifier: Apache-2.0
#include "ops/binary.h"

#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/constant.h"
#include "ops/elementwise_rows.h"
#include "ops/gradients.h"
#include "ops/registry.h"
#include "ops/select.h"
#include "ops/sharding_rules.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

constexpr char kIncompatible[] = "incompatible_shape_error: bool = true";
constexpr char kNoneInTensorFlow[] = "TensorFlow defines a gradient only for FloorMod";

using Result = BinaryRow::Result;
using S = const Scope&;
using Pair = std::vector<Output>;

Output Times(S s, double factor, Output x) {
  return ops::Mul(s, ops::ScalarConst(s, x.dtype(), factor), x);
}

// Routes g to the operand that `chooses_x`, a comparison, selects: x if the operands are equal.
template <Output (*chooses_x)(S, Output, Output)>
constexpr GradientFn kChoiceGrads = BinaryGrads([](S s, Output x, Output y, Output z, Output g) {
  const Output chosen = chooses_x(s, x, y), zero = ops::ScalarConst(s, g.dtype(), 0);
  return Pair{ops::SelectV2(s, chosen, g, zero), ops::SelectV2(s, chosen, zero, g)};
});

constexpr GradientFn kAddGrads = BinaryGrads([](S s, Output x, Output y, Output z, Output g) {
  return Pair{g, g};
});

// dL/dx = g / y, dL/dy = g * (-x / y / y); `divide` builds the quotients.
template <Output (*divide)(S, Output, Output)>
constexpr GradientFn kQuotientGrads = BinaryGrads([](S s, Output x, Output y, Output z, Output g) {
  return Pair{divide(s, g, y), ops::Mul(s, g, divide(s, divide(s, ops::Neg(s, x), y), y))};
});

constexpr GradientFn kPowGrads = BinaryGrads([](S s, Output x, Output y, Output z, Output g) {
  const Output one = ops::ScalarConst(s, x.dtype(), 1), zero = ops::ScalarConst(s, x.dtype(), 0);
  const Output dx = ops::Mul(s, ops::Mul(s, g, y), ops::Pow(s, x, ops::Sub(s, y, one)));
  // The logarithm is taken only where x is positive, so that x = 0 gives 0 instead of NaN.
  const Output positive = ops::Greater(s, x, zero);
  const Output log_x =
      ops::SelectV2(s, positive, ops::Log(s, ops::SelectV2(s, positive, x, one)), zero);
  return Pair{dx, ops::Mul(s, ops::Mul(s, g, z), log_x)};
});

// Integer quotients are rounded, so integer division is not linear.
absl::StatusOr<ShardingRule> DivSharding(const ShardContext& c) {
  return IsFloating(c.node().output_dtype(0)) ? LinearInFirstSharding(c) : ElementwiseSharding(c);
}

absl::StatusOr<ShardingRule> EqualSharding(const ShardContext& c) {
  // Operands that do not broadcast (incompatible_shape_error = false) are compared as a whole.
  return BroadcastShapes(c.input(0), c.input(1)).ok() ? ElementwiseSharding(c)
                                                      : ReplicatedSharding(c);
}

constexpr BinaryRow kRows[] = {
    {.name = "Add",
     .doc = "z = x + y",
     .dtypes = kNumeric,
     .gradient = kAddGrads,
     .sharding = JointlyLinearSharding,
     .traits = kCommutative},
    {.name = "AddV2",
     .doc = "z = x + y",
     .dtypes = kNumeric,
     .gradient = kAddGrads,
     .sharding = JointlyLinearSharding,
     .traits = kCommutative},
    {.name = "Div",
     .doc = "z = x / y, rounded towards zero for integers",
     .dtypes = kNumeric,
     .gradient = kQuotientGrads<ops::Div>,
     .sharding = DivSharding},
    {.name = "DivNoNan",
     .doc = "z = x / y, or 0 where y is 0",
     .gradient = kQuotientGrads<ops::DivNoNan>,
     .sharding = LinearInFirstSharding},
    {.name = "Equal",
     .doc = "z = (x == y)",
     .dtypes = kAny,
     .sharding = EqualSharding,
     .traits = kCommutative,
     .result = Result::kBool,
     .attr = kIncompatible},
    {.name = "FloorDiv",
     .doc = "z = x / y, rounded towards minus infinity",
     .dtypes = kNumeric,
     .gradient = ZeroGradients},
    {.name = "FloorMod",
     .doc = "z = x - y * floor(x / y)",
     .dtypes = kNumeric,
     .gradient = BinaryGrads([](S s, Output x, Output y, Output z, Output g) {
       return Pair{g, ops::Mul(s, g, ops::Neg(s, ops::FloorDiv(s, x, y)))};
     })},
    {.name = "Greater", .doc = "z = (x > y)", .dtypes = kNumeric, .result = Result::kBool},
    {.name = "GreaterEqual", .doc = "z = (x >= y)", .dtypes = kNumeric, .result = Result::kBool},
    {.name = "Less", .doc = "z = (x < y)", .dtypes = kNumeric, .result = Result::kBool},
    {.name = "LessEqual", .doc = "z = (x <= y)", .dtypes = kNumeric, .result = Result::kBool},
    {.name = "LogicalAnd",
     .doc = "z = x and y",
     .dtypes = nullptr,
     .traits = kCommutative,
     .result = Result::kBool},
    {.name = "LogicalOr",
     .doc = "z = x or y",
     .dtypes = nullptr,
     .traits = kCommutative,
     .result = Result::kBool},
    {.name = "Maximum",
     .doc = "z = the larger of x and y, or NaN if either is NaN",
     .dtypes = kNumeric,
     .gradient = kChoiceGrads<ops::GreaterEqual>,
     .traits = kCommutative},
    {.name = "Minimum",
     .doc = "z = the smaller of x and y, or NaN if either is NaN",
     .dtypes = kNumeric,
     .gradient = kChoiceGrads<ops::LessEqual>,
     .traits = kCommutative},
    {.name = "Mod",
     .doc = "z = x - y * trunc(x / y)",
     .dtypes = kSigned,
     .no_gradient = kNoneInTensorFlow},
    {.name = "Mul",
     .doc = "z = x * y",
     .dtypes = kNumeric,
     .gradient = BinaryGrads([](S s, Output x, Output y, Output z, Output g) {
       return Pair{ops::Mul(s, g, y), ops::Mul(s, x, g)};
     }),
     .sharding = MultilinearSharding,
     .traits = kCommutative},
    {.name = "NotEqual",
     .doc = "z = (x != y)",
     .dtypes = kAny,
     .sharding = EqualSharding,
     .traits = kCommutative,
     .result = Result::kBool,
     .attr = kIncompatible},
    {.name = "Pow",
     .doc = "z = x^y",
     .dtypes = kSigned,
     .gradient = kPowGrads,
     .traits = kNeedsPrecision},
    {.name = "RealDiv",
     .doc = "z = x / y",
     .gradient = kQuotientGrads<ops::RealDiv>,
     .sharding = LinearInFirstSharding},
    {.name = "SquaredDifference",
     .doc = "z = (x - y)^2",
     .dtypes = kSigned,
     .gradient = BinaryGrads([](S s, Output x, Output y, Output z, Output g) {
       const Output dx = ops::Mul(s, Times(s, 2, g), ops::Sub(s, x, y));
       return Pair{dx, ops::Neg(s, dx)};
     }),
     .traits = kCommutative},
    {.name = "Sub",
     .doc = "z = x - y",
     .dtypes = kNumeric,
     .gradient = BinaryGrads([](S s, Output x, Output y, Output z, Output g) {
       return Pair{g, ops::Neg(s, g)};
     }),
     .sharding = JointlyLinearSharding},
    {.name = "TruncateDiv",
     .doc = "z = x / y, rounded towards zero",
     .dtypes = kNumeric,
     .gradient = ZeroGradients},
    {.name = "TruncateMod",
     .doc = "z = x - y * trunc(x / y)",
     .dtypes = kSigned,
     .no_gradient = kNoneInTensorFlow},
};

}  // namespace

void RegisterBinary(OpRegistry& ops) { RegisterBinaryRows(ops, kRows); }

namespace ops {

Output Add(const Scope& scope, Output x, Output y) { return Apply(scope, "Add", {x, y}); }
Output AddV2(const Scope& scope, Output x, Output y) { return Apply(scope, "AddV2", {x, y}); }
Output Sub(const Scope& scope, Output x, Output y) { return Apply(scope, "Sub", {x, y}); }
Output Mul(const Scope& scope, Output x, Output y) { return Apply(scope, "Mul", {x, y}); }
Output Div(const Scope& scope, Output x, Output y) { return Apply(scope, "Div", {x, y}); }
Output RealDiv(const Scope& scope, Output x, Output y) { return Apply(scope, "RealDiv", {x, y}); }
Output DivNoNan(const Scope& scope, Output x, Output y) { return Apply(scope, "DivNoNan", {x, y}); }
Output FloorDiv(const Scope& scope, Output x, Output y) { return Apply(scope, "FloorDiv", {x, y}); }
Output FloorMod(const Scope& scope, Output x, Output y) { return Apply(scope, "FloorMod", {x, y}); }
Output Mod(const Scope& scope, Output x, Output y) { return Apply(scope, "Mod", {x, y}); }
Output TruncateDiv(const Scope& scope, Output x, Output y) {
  return Apply(scope, "TruncateDiv", {x, y});
}
Output TruncateMod(const Scope& scope, Output x, Output y) {
  return Apply(scope, "TruncateMod", {x, y});
}
Output Maximum(const Scope& scope, Output x, Output y) { return Apply(scope, "Maximum", {x, y}); }
Output Minimum(const Scope& scope, Output x, Output y) { return Apply(scope, "Minimum", {x, y}); }
Output Pow(const Scope& scope, Output x, Output y) { return Apply(scope, "Pow", {x, y}); }
Output SquaredDifference(const Scope& scope, Output x, Output y) {
  return Apply(scope, "SquaredDifference", {x, y});
}
Output Less(const Scope& scope, Output x, Output y) { return Apply(scope, "Less", {x, y}); }
Output LessEqual(const Scope& scope, Output x, Output y) {
  return Apply(scope, "LessEqual", {x, y});
}
Output Greater(const Scope& scope, Output x, Output y) { return Apply(scope, "Greater", {x, y}); }
Output GreaterEqual(const Scope& scope, Output x, Output y) {
  return Apply(scope, "GreaterEqual", {x, y});
}
Output LogicalAnd(const Scope& scope, Output x, Output y) {
  return Apply(scope, "LogicalAnd", {x, y});
}
Output LogicalOr(const Scope& scope, Output x, Output y) {
  return Apply(scope, "LogicalOr", {x, y});
}

Output Equal(const Scope& scope, Output x, Output y, const EqualOptions& options) {
  return Build(scope, "Equal", {x, y})
      .Attr("incompatible_shape_error", options.incompatible_shape_error)
      .One();
}

Output NotEqual(const Scope& scope, Output x, Output y, const EqualOptions& options) {
  return Build(scope, "NotEqual", {x, y})
      .Attr("incompatible_shape_error", options.incompatible_shape_error)
      .One();
}

}  // namespace ops
}  // namespace mirrorflow
