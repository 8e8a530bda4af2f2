// SPDX-License-Identifier: Apache-2.0
#include "ops/bitwise.h"

#include "ops/elementwise_rows.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

constexpr char kInteger[] = "T: {int32, int64, uint8}";
constexpr char kIsInteger[] = "the output is an integer";

constexpr UnaryRow kUnaryRows[] = {
    {.name = "Invert",
     .doc = "y = x with every bit inverted",
     .dtypes = kInteger,
     .no_gradient = kIsInteger},
};

constexpr BinaryRow kBinaryRows[] = {
    {.name = "BitwiseAnd",
     .doc = "z = the bits that are set in both x and y",
     .dtypes = kInteger,
     .no_gradient = kIsInteger,
     .traits = kCommutative},
    {.name = "BitwiseOr",
     .doc = "z = the bits that are set in x or y",
     .dtypes = kInteger,
     .no_gradient = kIsInteger,
     .traits = kCommutative},
    {.name = "BitwiseXor",
     .doc = "z = the bits that are set in exactly one of x and y",
     .dtypes = kInteger,
     .no_gradient = kIsInteger,
     .traits = kCommutative},
    {.name = "LeftShift",
     .doc = "z = x shifted left by y bits, with y clamped to [0, number of bits - 1]",
     .dtypes = kInteger,
     .no_gradient = kIsInteger},
    {.name = "RightShift",
     .doc = "z = x shifted right by y bits, with y clamped to [0, number of bits - 1]",
     .dtypes = kInteger,
     .no_gradient = kIsInteger},
};

}  // namespace

void RegisterBitwise(OpRegistry& ops) {
  RegisterUnaryRows(ops, kUnaryRows);
  RegisterBinaryRows(ops, kBinaryRows);
}

namespace ops {

Output BitwiseAnd(const Scope& scope, Output x, Output y) {
  return Apply(scope, "BitwiseAnd", {x, y});
}
Output BitwiseOr(const Scope& scope, Output x, Output y) {
  return Apply(scope, "BitwiseOr", {x, y});
}
Output BitwiseXor(const Scope& scope, Output x, Output y) {
  return Apply(scope, "BitwiseXor", {x, y});
}
Output LeftShift(const Scope& scope, Output x, Output y) {
  return Apply(scope, "LeftShift", {x, y});
}
Output RightShift(const Scope& scope, Output x, Output y) {
  return Apply(scope, "RightShift", {x, y});
}
Output Invert(const Scope& scope, Output x) { return Apply(scope, "Invert", {x}); }

}  // namespace ops
}  // namespace mirrorflow
