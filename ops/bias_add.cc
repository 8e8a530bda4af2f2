// SPDX-License-Identifier: Apache-2.0
#include "ops/bias_add.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/shape_ops.h"
#include "ops/sharding_rules.h"
#include "ops/tile.h"
#include "ops/window_attrs.h"

namespace mirrorflow {
namespace {

absl::Status BiasAddShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(CheckNhwc(c.node()));
  MF_ASSIGN_OR_RETURN(Shape value, c.WithRankAtLeast(0, 2));
  MF_ASSIGN_OR_RETURN(const Shape bias, c.WithRank(1, 1));
  if (!value.unknown_rank()) {
    const int last = value.rank() - 1;
    if (value.dim(last) == kUnknownDim) value.set_dim(last, bias.dim(0));
    if (bias.dim(0) != kUnknownDim && bias.dim(0) != value.dim(last)) {
      return absl::InvalidArgumentError(
          absl::StrCat("bias must be as long as the last dimension of value ", value.ToString(),
                       "; expected [", value.dim(last), "], got ", bias.ToString()));
    }
  }
  c.set_output(0, value);
  return absl::OkStatus();
}

// The sum of a partial value and a bias is right only if the bias is partial too: else every
// replica would add it once.
absl::StatusOr<ShardingRule> BiasAddSharding(const ShardContext& c) {
  const std::string value = LettersFor(c.input(0));
  return ShardingRule{.dims = absl::StrCat(value, ",", value.substr(value.size() - 1), "->", value),
                      .linearity = Linearity::kJoint};
}

absl::StatusOr<std::vector<Output>> BiasAddGradient(const GradContext& c) {
  return std::vector<Output>{
      c.dy[0],
      ops::BiasAddGrad(c.scope, c.dy[0], {.data_format = c.op.attr<std::string>("data_format")})};
}

absl::Status BiasAddGradShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(CheckNhwc(c.node()));
  MF_ASSIGN_OR_RETURN(const Shape dy, c.WithRankAtLeast(0, 2));
  c.set_output(0, Shape({dy.unknown_rank() ? kUnknownDim : dy.dim(dy.rank() - 1)}));
  return absl::OkStatus();
}

absl::StatusOr<ShardingRule> BiasAddGradSharding(const ShardContext& c) {
  const std::string dy = LettersFor(c.input(0));
  return ShardingRule{.dims = absl::StrCat(dy, "->", dy.substr(dy.size() - 1)),
                      .linearity = Linearity::kJoint};
}

absl::StatusOr<std::vector<Output>> BiasAddGradGradient(const GradContext& c) {
  return std::vector<Output>{
      ops::BroadcastTo(c.scope, c.dy[0], ops::ShapeOperand(c.scope, c.op.input(0)))};
}

}  // namespace

void RegisterBiasAdd(OpRegistry& ops) {
  ops.Define("BiasAdd")
      .Doc("output[…,c] = value[…,c] + bias[c]")
      .Input("value: T")
      .Input("bias: T")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8}")
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
      .Shape(BiasAddShape)
      .Sharding(BiasAddSharding)
      .Gradient(BiasAddGradient);
  ops.Define("BiasAddGrad")
      .Doc("output[c] = sum over … of out_backprop[…,c]")
      .Input("out_backprop: T")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8}")
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
      .Shape(BiasAddGradShape)
      .Sharding(BiasAddGradSharding)
      .Gradient(BiasAddGradGradient);
}

namespace ops {

Output BiasAdd(const Scope& scope, Output value, Output bias, const BiasAddOptions& options) {
  return Build(scope, "BiasAdd")
      .Input(value)
      .Input(bias)
      .Attr("data_format", options.data_format)
      .One();
}

Output BiasAddGrad(const Scope& scope, Output out_backprop, const BiasAddOptions& options) {
  return Build(scope, "BiasAddGrad")
      .Input(out_backprop)
      .Attr("data_format", options.data_format)
      .One();
}

}  // namespace ops
}  // namespace mirrorflow
