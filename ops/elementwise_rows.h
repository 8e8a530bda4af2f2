// SPDX-License-Identifier: Apache-2.0
//
// The rows of the tables that define element-wise ops, in unary.cc, binary.cc and similar files.
// Such an op has one operand, or two operands that broadcast.
#ifndef MIRRORFLOW_OPS_ELEMENTWISE_ROWS_H_
#define MIRRORFLOW_OPS_ELEMENTWISE_ROWS_H_

#include <vector>

#include "absl/types/span.h"
#include "framework/graph/op_registry.h"
#include "framework/graph/scope.h"
#include "ops/broadcast_gradient.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {

// Attribute specs for the dtypes of the operands.
inline constexpr char kFloating[] = "T: {half, bfloat16, float, double}";
inline constexpr char kSigned[] = "T: {half, bfloat16, float, double, int32, int64}";
inline constexpr char kNumeric[] = "T: {half, bfloat16, float, double, int32, int64, uint8}";
inline constexpr char kAny[] = "T: {half, bfloat16, float, double, int32, int64, uint8, bool}";

// An op with one operand. The result has the operand's shape.
struct UnaryRow {
  const char* name;
  const char* doc;
  const char* dtypes = kFloating;  // null: no attribute T
  GradientFn gradient = nullptr;
  const char* no_gradient = "";
  ShardingFn sharding = ElementwiseSharding;
  const char* input = "x: T";
  const char* output = "y: T";
  OpRole role = OpRole::kNone;
  const char* attr = nullptr;  // an additional attribute
  uint32_t traits = 0;         // in addition to kElementwise
  UlpBounds max_ulps = {};
};

void RegisterUnaryRows(OpRegistry& ops, absl::Span<const UnaryRow> rows);

// Returns a gradient function that computes dx = fn(scope, x, y, dy).
template <typename Fn>
constexpr GradientFn Dx(Fn) {
  return [](const GradContext& c) -> absl::StatusOr<std::vector<Output>> {
    return std::vector<Output>{Fn{}(c.scope, c.op.input(0), c.op.output(0), c.dy[0])};
  };
}

// An op with two operands that broadcast.
struct BinaryRow {
  enum class Result { kSame, kBool };

  const char* name;
  const char* doc;
  const char* dtypes = kFloating;  // null: bool operands and no attribute T
  GradientFn gradient = nullptr;
  const char* no_gradient = "";
  ShardingFn sharding = ElementwiseSharding;
  uint32_t traits = 0;
  Result result = Result::kSame;
  const char* attr = nullptr;  // an additional attribute
  const char* x = "x: T";
  const char* y = "y: T";
  const char* z = "z: T";
};

void RegisterBinaryRows(OpRegistry& ops, absl::Span<const BinaryRow> rows);

// Wraps `fn`, which returns the gradients {dx, dy} = fn(scope, x, y, z, g) in the shape of the
// result z, where g = dL/dz. The wrapper sums them to the operands' shapes.
template <typename Fn>
constexpr GradientFn BinaryGrads(Fn) {
  return [](const GradContext& c) -> absl::StatusOr<std::vector<Output>> {
    std::vector<Output> grads =
        Fn{}(c.scope, c.op.input(0), c.op.input(1), c.op.output(0), c.dy[0]);
    for (int i = 0; i < 2; ++i) {
      if (grads[i].valid()) grads[i] = SumToOperand(c, i, grads[i]);
    }
    return grads;
  };
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_ELEMENTWISE_ROWS_H_
