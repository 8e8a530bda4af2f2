// SPDX-License-Identifier: Apache-2.0
#include "ops/one_hot.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

absl::StatusOr<int> AxisOf(const Node& node, int output_rank) {
  const int64_t axis = node.attr<int64_t>("axis");
  if (axis >= -1 && axis < output_rank) {
    return axis == -1 ? output_rank - 1 : static_cast<int>(axis);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("axis must be -1 or in [0, ", output_rank, "), got ", axis));
}

absl::Status OneHotShape(ShapeContext& c) {
  for (int i = 1; i < 4; ++i) MF_RETURN_IF_ERROR(c.WithRank(i, 0).status());
  MF_ASSIGN_OR_RETURN(const std::optional<int64_t> depth, CountInput(c, 1));
  const Shape& indices = c.input(0);
  if (indices.unknown_rank()) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(const int axis, AxisOf(c.node(), indices.rank() + 1));
  return SetOutput(c, WithDim(indices, axis, depth.value_or(kUnknownDim)));
}

absl::StatusOr<ShardingRule> OneHotSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const int axis, AxisOf(c.node(), c.output(0).rank()));
  const std::string indices = LettersFor(c.input(0));
  std::string output = indices;
  output.insert(axis, 1, '.');
  return MoveSharding(c, absl::StrCat(indices, ",,,->", output), {2, 3});
}

// Sums dy, weighted by `on` at the one-hot positions and by `off` elsewhere.
Output SumWhere(const GradContext& c, double on, double off) {
  const Scope& s = c.scope;
  const Output dy = c.dy[0];
  const Output where =
      ops::OneHot(s, c.op.input(0), c.op.input(1), ops::ScalarConst(s, dy.dtype(), on),
                  ops::ScalarConst(s, dy.dtype(), off), {.axis = c.op.attr<int64_t>("axis")});
  return ops::Sum(s, ops::Mul(s, dy, where));
}

absl::StatusOr<std::vector<Output>> OneHotGrad(const GradContext& c) {
  return std::vector<Output>{Output(), Output(), SumWhere(c, 1, 0), SumWhere(c, 0, 1)};
}

}  // namespace

void RegisterOneHot(OpRegistry& ops) {
  ops.Define("OneHot")
      .Doc(
          "on_value where the index in the new dimension equals the element of indices, else "
          "off_value")
      .Input("indices: TI")
      .StaticInput("depth: int32")
      .Input("on_value: T")
      .Input("off_value: T")
      .Output("output: T")
      .Attr("axis: int = -1")
      .Attr("T: type")
      .Attr("TI: {uint8, int32, int64} = int64")
      .Shape(OneHotShape)
      .Sharding(OneHotSharding)
      .Gradient(OneHotGrad);
}

namespace ops {

Output OneHot(const Scope& scope, Output indices, Output depth, Output on_value, Output off_value,
              const OneHotOptions& options) {
  return Build(scope, "OneHot", {indices, depth, on_value, off_value})
      .Attr("axis", options.axis)
      .One();
}

}  // namespace ops
}  // namespace mirrorflow
