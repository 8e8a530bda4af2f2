// SPDX-License-Identifier: Apache-2.0
#include "ops/avg_pool.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/window.h"

namespace mirrorflow {
namespace {

absl::Status AvgPoolShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape value, c.WithRank(0, 4));
  return SetOutput(c, PooledShape(c.node(), value));
}

absl::Status AvgPoolGradShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape images, FourSizes(c, 0));
  MF_ASSIGN_OR_RETURN(const Shape output, PooledShape(c.node(), images));
  MF_RETURN_IF_ERROR(CheckShape(output, c.input(1), "grad must have AvgPool's output shape"));
  return SetOutput(c, images);
}

absl::StatusOr<ShardingRule> AvgPoolSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const ImageLayout layout, ReadImageLayout(c.node()));
  const std::string images = layout.Term("n", "c");
  return ShardingRule{.dims = absl::StrCat(images, "->", images), .linearity = Linearity::kJoint};
}

absl::StatusOr<ShardingRule> AvgPoolGradSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const ImageLayout layout, ReadImageLayout(c.node()));
  const std::string images = layout.Term("n", "c");
  return ShardingRule{.dims = absl::StrCat(".,", images, "->", images),
                      .linearity = Linearity::kJoint,
                      .linear_inputs = {1}};
}

absl::StatusOr<std::vector<Output>> AvgPoolGradient(const GradContext& c) {
  return std::vector<Output>{ops::ApplyWithSameAttrs(
      c, "AvgPoolGrad", {ops::ShapeOperand(c.scope, c.op.input(0)), c.dy[0]})};
}

// AvgPoolGrad is linear in grad, and its gradient is AvgPool.
absl::StatusOr<std::vector<Output>> AvgPoolGradGradient(const GradContext& c) {
  return std::vector<Output>{Output(), ops::ApplyWithSameAttrs(c, "AvgPool", {c.dy[0]})};
}

OpBuilder& PoolingAttrs(OpBuilder& op) {
  return op.Attr("ksize: list(int) >= 4")
      .Attr("strides: list(int) >= 4")
      .Attr("padding: {'SAME', 'VALID'}")
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
      .Attr("T: {half, bfloat16, float, double}");
}

}  // namespace

void RegisterAvgPool(OpRegistry& ops) {
  PoolingAttrs(ops.Define("AvgPool")
                   .Doc("the mean of each channel over a window")
                   .Input("value: T")
                   .Output("output: T"))
      .Traits(kKeepsPrecision)
      .Shape(AvgPoolShape)
      .Sharding(AvgPoolSharding)
      .Gradient(AvgPoolGradient);
  PoolingAttrs(
      ops.Define("AvgPoolGrad")
          .Doc("distributes each element of grad equally over the pixels of its AvgPool window")
          .StaticInput("orig_input_shape: int32")
          .Input("grad: T")
          .Output("output: T"))
      .Traits(kKeepsPrecision)
      .Shape(AvgPoolGradShape)
      .Sharding(AvgPoolGradSharding)
      .Gradient(AvgPoolGradGradient);
}

namespace ops {

Output AvgPool(const Scope& scope, Output value, absl::Span<const int64_t> ksize,
               absl::Span<const int64_t> strides, absl::string_view padding,
               const AvgPoolOptions& options) {
  return FinishWindow(Build(scope, "AvgPool", {value}).Attr("ksize", AttrValue::List(ksize)),
                      strides, padding, options);
}

Output AvgPoolGrad(const Scope& scope, Output orig_input_shape, Output grad,
                   absl::Span<const int64_t> ksize, absl::Span<const int64_t> strides,
                   absl::string_view padding, const AvgPoolOptions& options) {
  return FinishWindow(
      Build(scope, "AvgPoolGrad", {orig_input_shape, grad}).Attr("ksize", AttrValue::List(ksize)),
      strides, padding, options);
}

}  // namespace ops
}  // namespace mirrorflow
