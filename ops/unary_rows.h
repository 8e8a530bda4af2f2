// SPDX-License-Identifier: Apache-2.0
//
// Rows of tables that define element-wise ops of one operand, whose result has its shape.
#ifndef MIRRORFLOW_OPS_UNARY_ROWS_H_
#define MIRRORFLOW_OPS_UNARY_ROWS_H_

#include <vector>

#include "absl/types/span.h"
#include "framework/graph/op_registry.h"
#include "framework/graph/scope.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {

struct UnaryRow {
  const char* name;
  const char* doc;
  const char* dtypes;  // null: no attribute T
  GradientFn gradient = nullptr;
  const char* no_gradient = "";
  ShardingFn sharding = ElementwiseSharding;
  const char* input = "x: T";
  const char* output = "y: T";
  OpRole role = OpRole::kNone;
  const char* attr = nullptr;  // an additional one
  uint32_t traits = 0;         // in addition to kElementwise
};

void RegisterUnaryRows(OpRegistry& ops, absl::Span<const UnaryRow> rows);

// A gradient function that computes dx = fn(scope, x, y, dy).
template <typename Fn>
constexpr GradientFn Dx(Fn) {
  return [](const GradContext& c) -> absl::StatusOr<std::vector<Output>> {
    return std::vector<Output>{Fn{}(c.scope, c.op.input(0), c.op.output(0), c.dy[0])};
  };
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_UNARY_ROWS_H_
