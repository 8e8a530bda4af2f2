// SPDX-License-Identifier: Apache-2.0
#include "ops/reverse.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

absl::Status ReverseShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  const Shape& tensor = c.input(0);
  c.set_output(0, tensor);
  MF_ASSIGN_OR_RETURN(const std::optional<std::vector<int64_t>> axes, c.integers(1));
  if (!axes.has_value() || tensor.unknown_rank()) return absl::OkStatus();
  std::vector<bool> reversed(tensor.rank(), false);
  for (int64_t given : *axes) {
    MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(given, tensor.rank()));
    if (reversed[axis]) {
      return absl::InvalidArgumentError(
          absl::StrCat("axis must list each dimension once, got dimension ", axis, " twice"));
    }
    reversed[axis] = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<ShardingRule> ReverseSharding(const ShardContext& c) {
  const Shape& tensor = c.input(0);
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, c.integers(1));
  std::string term = LettersFor(tensor);
  for (int64_t axis : axes) {
    if (tensor.dim(static_cast<int>(axis < 0 ? axis + tensor.rank() : axis)) != 1) {
      term[axis < 0 ? axis + tensor.rank() : axis] = '.';
    }
  }
  return MoveSharding(c, absl::StrCat(term, ",.->", term), {0});
}

absl::StatusOr<std::vector<Output>> ReverseGrad(const GradContext& c) {
  return std::vector<Output>{ops::ReverseV2(c.scope, c.dy[0], c.op.input(1)), Output()};
}

}  // namespace

void RegisterReverse(OpRegistry& ops) {
  ops.Define("ReverseV2")
      .Doc("the input with the dimensions in `axis` reversed")
      .Input("tensor: T")
      .StaticInput("axis: Tidx")
      .Output("output: T")
      .Attr("Tidx: {int32, int64} = int32")
      .Attr("T: type")
      .Traits(kKeepsPrecision)
      .Shape(ReverseShape)
      .Sharding(ReverseSharding)
      .Gradient(ReverseGrad);
}

namespace ops {

Output ReverseV2(const Scope& scope, Output tensor, Output axis) {
  return Apply(scope, "ReverseV2", {tensor, axis});
}

}  // namespace ops
}  // namespace mirrorflow
