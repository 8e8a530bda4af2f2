// SPDX-License-Identifier: Apache-2.0
#include "ops/select.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/broadcast_gradient.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

absl::Status SelectShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape branches, BroadcastShapes(c.input(1), c.input(2)));
  return SetOutput(c, BroadcastShapes(c.input(0), branches));
}

// Select's condition is a scalar, has the values' shape, or has one element per row.
absl::Status SelectV1Shape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(Shape shape,
                      MergeShapes(c.input(1), c.input(2), "t and e must have the same shape"));
  const Shape& condition = c.input(0);
  const bool scalar = !condition.unknown_rank() && condition.rank() == 0;
  bool of_rows = !condition.unknown_rank() && condition.rank() == 1;
  if (of_rows && !shape.unknown_rank()) {
    of_rows = shape.rank() > 0 && Shape({shape.dim(0)}).IsCompatibleWith(condition);
  }
  if (!scalar && !of_rows) {
    MF_RETURN_IF_ERROR(CheckShape(
        shape, condition,
        "condition must be a scalar or a vector with one element per row, or have the values' "
        "shape"));
  }
  return SetOutput(c, std::move(shape));
}

absl::StatusOr<ShardingRule> SelectV1Sharding(const ShardContext& c) {
  const std::string values = LettersFor(c.output(0));
  const std::string condition = values.substr(0, c.input(0).rank());
  return MoveSharding(c, absl::StrCat(condition, ",", values, ",", values, "->", values), {1, 2});
}

absl::StatusOr<std::vector<Output>> SelectV1Grad(const GradContext& c) {
  const Output condition = c.op.input(0), dy = c.dy[0];
  const Output zeros = ops::ZerosLike(c.scope, c.op.input(1));
  return std::vector<Output>{Output(), ops::Select(c.scope, condition, dy, zeros),
                             ops::Select(c.scope, condition, zeros, dy)};
}

// A sum of selections equals the selection of the sums only if all replicas have the same
// condition. Partial sums can therefore pass through t and e, but not through the condition.
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
  ops.Define("Select")
      .Doc("output = t where condition is true, e elsewhere; a vector condition selects rows")
      .Input("condition: bool")
      .Input("t: T")
      .Input("e: T")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8, bool}")
      .Shape(SelectV1Shape)
      .Sharding(SelectV1Sharding)
      .Gradient(SelectV1Grad);
  ops.Define("SelectV2")
      .Doc("output = t where condition is true, e elsewhere")
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

Output Select(const Scope& scope, Output condition, Output t, Output e) {
  return Apply(scope, "Select", {condition, t, e});
}

Output SelectV2(const Scope& scope, Output condition, Output t, Output e) {
  return Apply(scope, "SelectV2", {condition, t, e});
}

}  // namespace ops
}  // namespace mirrorflow
