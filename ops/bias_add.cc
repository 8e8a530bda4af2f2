// SPDX-License-Identifier: Apache-2.0
#include "ops/bias_add.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "ops/registry.h"
#include "ops/reshape.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"
#include "ops/tile.h"

namespace mirrorflow {
namespace {

// Returns the channel dimension of a value of rank `rank`.
int ChannelDim(const Node& node, int rank) {
  return node.attr<std::string>("data_format") == "NCHW" ? 1 : rank - 1;
}

absl::Status BiasAddShape(ShapeContext& c) {
  const bool nchw = c.attr<std::string>("data_format") == "NCHW";
  MF_ASSIGN_OR_RETURN(Shape value, c.WithRankAtLeast(0, nchw ? 3 : 2));
  MF_ASSIGN_OR_RETURN(const Shape bias, c.WithRank(1, 1));
  if (!value.unknown_rank()) {
    const int d = ChannelDim(c.node(), value.rank());
    MF_ASSIGN_OR_RETURN(
        const Shape channels,
        MergeShapes(Shape({value.dim(d)}), bias, "bias must have as many elements as dimension ", d,
                    " of value ", value.ToString()));
    value.set_dim(d, channels.dim(0));
  }
  return SetOutput(c, value);
}

// A bias can be added to a partial value only if the bias is also partial; otherwise every replica
// would add the whole bias.
absl::StatusOr<ShardingRule> BiasAddSharding(const ShardContext& c) {
  const std::string value = LettersFor(c.input(0));
  const char channels = value[ChannelDim(c.node(), c.input(0).rank())];
  return ShardingRule{.dims = absl::StrCat(value, ",", std::string(1, channels), "->", value),
                      .linearity = Linearity::kJoint};
}

absl::StatusOr<std::vector<Output>> BiasAddGradient(const GradContext& c) {
  return std::vector<Output>{c.dy[0], ops::ApplyWithSameAttrs(c, "BiasAddGrad", {c.dy[0]})};
}

absl::Status BiasAddGradShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape dy, c.WithRankAtLeast(0, 2));
  return SetOutput(
      c, Shape({dy.unknown_rank() ? kUnknownDim : dy.dim(ChannelDim(c.node(), dy.rank()))}));
}

absl::StatusOr<ShardingRule> BiasAddGradSharding(const ShardContext& c) {
  const std::string dy = LettersFor(c.input(0));
  const char channels = dy[ChannelDim(c.node(), c.input(0).rank())];
  return ShardingRule{.dims = absl::StrCat(dy, "->", std::string(1, channels)),
                      .linearity = Linearity::kJoint};
}

absl::StatusOr<std::vector<Output>> BiasAddGradGradient(const GradContext& c) {
  const Output value = c.op.input(0);
  Output dy = c.dy[0];
  if (c.op.attr<std::string>("data_format") == "NCHW") {
    const Shape& shape = c.scope.shape(value);
    if (shape.unknown_rank()) {
      return absl::UnimplementedError("the gradient with NCHW requires an operand of known rank");
    }
    // The bias as a column: the channels, followed by a 1 for each later dimension.
    Shape column(std::vector<int64_t>(shape.rank() - 1, 1));
    column.set_dim(0, kUnknownDim);
    dy = ops::Reshape(c.scope, dy, column);
  }
  return std::vector<Output>{ops::BroadcastTo(c.scope, dy, ops::ShapeOperand(c.scope, value))};
}

}  // namespace

void RegisterBiasAdd(OpRegistry& ops) {
  ops.Define("BiasAdd")
      .Doc("output[…,c] = value[…,c] + bias[c]; with NCHW, c indexes dimension 1")
      .Input("value: T")
      .Input("bias: T")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8}")
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
      .Traits(kKeepsPrecision)
      .Shape(BiasAddShape)
      .Sharding(BiasAddSharding)
      .Gradient(BiasAddGradient);
  ops.Define("BiasAddGrad")
      .Doc("output[c] = sum over … of out_backprop[…,c]; with NCHW, c indexes dimension 1")
      .Input("out_backprop: T")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8}")
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
      .Traits(kKeepsPrecision)
      .Shape(BiasAddGradShape)
      .Sharding(BiasAddGradSharding)
      .Gradient(BiasAddGradGradient);
}

namespace ops {

Output BiasAdd(const Scope& scope, Output value, Output bias, const BiasAddOptions& options) {
  return Build(scope, "BiasAdd", {value, bias}).Attr("data_format", options.data_format).One();
}

Output BiasAddGrad(const Scope& scope, Output out_backprop, const BiasAddOptions& options) {
  return Build(scope, "BiasAddGrad", {out_backprop}).Attr("data_format", options.data_format).One();
}

}  // namespace ops
}  // namespace mirrorflow
