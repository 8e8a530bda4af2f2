// SPDX-License-Identifier: Apache-2.0
#include "ops/binary_math.h"

#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/elementwise_rows.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

constexpr char kWide[] = "T: {float, double}";

using S = const Scope&;
using Pair = std::vector<Output>;

// Returns 1 where x is not 0, else 0. Functions that are defined as 0 at x = 0 also have derivative
// 0 there.
Output IsNotZero(S s, Output x) {
  return ops::Cast(s, ops::NotEqual(s, x, ops::ScalarConst(s, x.dtype(), 0)), x.dtype());
}

constexpr BinaryRow kRows[] = {
    {.name = "Atan2",
     .doc = "z = the angle in [-pi, pi] of the point (x, y)",
     .gradient = BinaryGrads([](S s, Output y, Output x, Output z, Output g) {
       const Output squares = ops::AddV2(s, ops::Square(s, y), ops::Square(s, x));
       const Output scaled = ops::RealDiv(s, g, squares);
       return Pair{ops::Mul(s, x, scaled), ops::Mul(s, ops::Neg(s, y), scaled)};
     }),
     .x = "y: T",
     .y = "x: T"},
    {.name = "MulNoNan",
     .doc = "z = x * y, or 0 where y is 0",
     .gradient = BinaryGrads([](S s, Output x, Output y, Output z, Output g) {
       return Pair{ops::MulNoNan(s, g, y), ops::MulNoNan(s, x, g)};
     }),
     .sharding = LinearInFirstSharding},
    {.name = "NextAfter",
     .doc = "output = the next representable value after x1 in the direction of x2",
     .dtypes = kWide,
     .gradient = BinaryGrads([](S s, Output x1, Output x2, Output z, Output g) {
       return Pair{g, ops::ZerosLike(s, g)};
     }),
     .x = "x1: T",
     .y = "x2: T",
     .z = "output: T"},
    {.name = "Polygamma",
     .doc = "z = the (a + 1)-th derivative of log gamma at x",
     .dtypes = kWide,
     .gradient = BinaryGrads([](S s, Output a, Output x, Output z, Output g) {
       const Output next = ops::AddV2(s, a, ops::ScalarConst(s, a.dtype(), 1));
       return Pair{Output(), ops::Mul(s, ops::Polygamma(s, next, x), g)};
     }),
     .x = "a: T",
     .y = "x: T"},
    {.name = "Xdivy",
     .doc = "z = x / y, or 0 where x is 0",
     .gradient = BinaryGrads([](S s, Output x, Output y, Output z, Output g) {
       return Pair{ops::Mul(s, ops::Xdivy(s, IsNotZero(s, x), y), g),
                   ops::Mul(s, ops::Xdivy(s, ops::Neg(s, x), ops::Square(s, y)), g)};
     })},
    {.name = "Xlog1py",
     .doc = "z = x * log(1 + y), or 0 where x is 0",
     .gradient = BinaryGrads([](S s, Output x, Output y, Output z, Output g) {
       const Output one = ops::ScalarConst(s, y.dtype(), 1);
       return Pair{ops::Mul(s, ops::Xlog1py(s, IsNotZero(s, x), y), g),
                   ops::Mul(s, ops::Xdivy(s, x, ops::AddV2(s, y, one)), g)};
     })},
    {.name = "Xlogy",
     .doc = "z = x * log y, or 0 where x is 0",
     .gradient = BinaryGrads([](S s, Output x, Output y, Output z, Output g) {
       return Pair{ops::Mul(s, ops::Xlogy(s, IsNotZero(s, x), y), g),
                   ops::Mul(s, ops::Xdivy(s, x, y), g)};
     })},
};

}  // namespace

void RegisterBinaryMath(OpRegistry& ops) {
  RegisterBinaryRows(ops, kRows);
  ops.Define("ApproximateEqual")
      .Doc("z = (|x - y| < tolerance)")
      .Input("x: T")
      .Input("y: T")
      .Output("z: bool")
      .Attr(kWide)
      .Attr("tolerance: float = 0.00001")
      .Traits(kElementwise | kCommutative)
      .Shape(SameShape)
      .Sharding(ElementwiseSharding)
      .NoGradient("the output is bool");
}

namespace ops {

Output Atan2(const Scope& scope, Output y, Output x) { return Apply(scope, "Atan2", {y, x}); }
Output MulNoNan(const Scope& scope, Output x, Output y) { return Apply(scope, "MulNoNan", {x, y}); }
Output Xdivy(const Scope& scope, Output x, Output y) { return Apply(scope, "Xdivy", {x, y}); }
Output Xlogy(const Scope& scope, Output x, Output y) { return Apply(scope, "Xlogy", {x, y}); }
Output Xlog1py(const Scope& scope, Output x, Output y) { return Apply(scope, "Xlog1py", {x, y}); }
Output NextAfter(const Scope& scope, Output x1, Output x2) {
  return Apply(scope, "NextAfter", {x1, x2});
}
Output Polygamma(const Scope& scope, Output a, Output x) {
  return Apply(scope, "Polygamma", {a, x});
}

Output ApproximateEqual(const Scope& scope, Output x, Output y,
                        const ApproximateEqualOptions& options) {
  return Build(scope, "ApproximateEqual", {x, y}).Attr("tolerance", options.tolerance).One();
}

}  // namespace ops
}  // namespace mirrorflow
