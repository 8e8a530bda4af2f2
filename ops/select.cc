// SPDX-License-Identifier: Apache-2.0
#include "ops/select.h"

#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/broadcast_gradient.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

absl::Status SelectShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape branches, BroadcastShapes(c.input(1), c.input(2)));
  MF_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(c.input(0), branches));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

// All replicas must choose alike for a sum of choices to be the choice of the sums.
absl::StatusOr<ShardingRule> SelectSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(ShardingRule rule, JointlyLinearSharding(c));
  rule.linear_inputs = {1, 2};
  return rule;
}

absl::StatusOr<std::vector<Output>> SelectGrad(const GradContext& c) {
  const Output condition = c.op.input(0), dy = c.dy[0];
  const Output zero = ops::ScalarConst(c.scope, dy.dtype(), 0);
  return std::vector<Output>{
      Output(),
      SumToOperand(c, 1, ops::SelectV2(c.scope, condition, dy, zero)),
      SumToOperand(c, 2, ops::SelectV2(c.scope, condition, zero, dy)),
  };
}

}  // namespace

void RegisterSelect(OpRegistry& ops) {
  ops.Define("SelectV2")
      .Doc("output = t where condition holds, e elsewhere")
      .Input("condition: bool")
      .Input("t: T")
      .Input("e: T")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8, bool}")
      .Traits(kElementwise)
      .Shape(SelectShape)
      .Sharding(SelectSharding)
      .Gradient(SelectGrad);
}

namespace ops {

Output SelectV2(const Scope& scope, Output condition, Output t, Output e) {
  return Build(scope, "SelectV2").Input(condition).Input(t).Input(e).One();
}

}  // namespace ops
}  // namespace mirrorflow
