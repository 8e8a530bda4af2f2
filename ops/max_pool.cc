// SPDX-License-Identifier: Apache-2.0
#include "ops/max_pool.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/constant.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/slice.h"
#include "ops/window.h"

namespace mirrorflow {
namespace {

absl::Status MaxPoolShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape input, c.WithRank(0, 4));
  return SetOutput(c, PooledShape(c.node(), input));
}

absl::Status MaxPoolGradShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape input, c.WithRank(0, 4));
  MF_ASSIGN_OR_RETURN(const Shape output, PooledShape(c.node(), input));
  for (int i = 1; i <= 2; ++i) {
    MF_RETURN_IF_ERROR(
        CheckShape(output, c.input(i), "input ", i, " must have MaxPool's output shape"));
  }
  return SetOutput(c, input);
}

absl::Status MaxPoolGradGradShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape input, c.WithRank(0, 4));
  MF_ASSIGN_OR_RETURN(const Shape output, PooledShape(c.node(), input));
  MF_RETURN_IF_ERROR(CheckShape(input, c.input(2), "grad must have MaxPool's input shape"));
  return SetOutput(c,
                   MergeShapes(output, c.input(1), "orig_output must have MaxPool's output shape"));
}

absl::StatusOr<ShardingRule> MaxPoolSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const ImageLayout layout, ReadImageLayout(c.node()));
  const std::string images = layout.Term("n", "c");
  return ShardingRule{.dims = absl::StrCat(images, "->", images)};
}
absl::StatusOr<ShardingRule> MaxPoolGradSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const ImageLayout layout, ReadImageLayout(c.node()));
  const std::string images = layout.Term("n", "c");
  return ShardingRule{.dims = absl::StrCat(images, ",", images, ",", images, "->", images),
                      .linearity = Linearity::kMulti,
                      .linear_inputs = {2}};
}

absl::StatusOr<std::vector<Output>> MaxPoolGradient(const GradContext& c) {
  return std::vector<Output>{
      ops::ApplyWithSameAttrs(c, ops::kMaxPoolGrad, {c.op.input(0), c.op.output(0), c.dy[0]})};
}

// MaxPoolGradGrad does not support explicit padding, so the images are padded first, with a value
// that can never be the largest.
absl::StatusOr<std::vector<Output>> MaxPoolGradGradient(const GradContext& c) {
  const Scope& s = c.scope;
  const Node& op = c.op;
  Output images = op.input(0), dx = c.dy[0];
  std::string padding = op.attr<std::string>("padding");
  if (padding == "EXPLICIT") {
    const std::vector<int64_t> list = op.int_list("explicit_paddings");
    const std::vector<int32_t> sizes(list.begin(), list.end());
    const Output paddings = ops::Const(s, Tensor::Of<int32_t>({4, 2}, sizes));
    const double lowest = -std::numeric_limits<double>::infinity();
    images = ops::PadV2(s, images, paddings, ops::ScalarConst(s, images.dtype(), lowest));
    dx = ops::Pad(s, dx, paddings);
    padding = "VALID";
  }
  return std::vector<Output>{
      Output(), Output(),
      ops::MaxPoolGradGrad(s, images, op.input(1), dx, op.int_list("ksize"), op.int_list("strides"),
                           padding, {.data_format = op.attr<std::string>("data_format")})};
}

// The first two inputs only locate the largest values, so they have no gradient.
absl::StatusOr<std::vector<Output>> MaxPoolGradGradGradient(const GradContext& c) {
  return std::vector<Output>{
      Output(), Output(),
      ops::ApplyWithSameAttrs(c, ops::kMaxPoolGrad, {c.op.input(0), c.op.input(1), c.dy[0]})};
}

OpBuilder& PoolingAttrs(OpBuilder& op) {
  return op.Attr("T: {half, bfloat16, float, double, int32, int64, uint8} = float")
      .Attr("ksize: list(int) >= 4")
      .Attr("strides: list(int) >= 4")
      .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
      .Attr("explicit_paddings: list(int) = []")
      .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'");
}

}  // namespace

void RegisterMaxPool(OpRegistry& ops) {
  PoolingAttrs(ops.Define("MaxPool")
                   .Doc("the largest value of each channel in a window")
                   .Input("input: T")
                   .Output("output: T"))
      .Traits(kKeepsPrecision)
      .Shape(MaxPoolShape)
      .Sharding(MaxPoolSharding)
      .Gradient(MaxPoolGradient);
  PoolingAttrs(ops.Define("MaxPoolGrad")
                   .Doc("passes each element of grad to the largest value of its MaxPool window, "
                        "the first if several are equal")
                   .Input("orig_input: T")
                   .Input("orig_output: T")
                   .Input("grad: T")
                   .Output("output: T"))
      .Traits(kKeepsPrecision)
      .Shape(MaxPoolGradShape)
      .Sharding(MaxPoolGradSharding)
      .Gradient(MaxPoolGradGradient);
  ops.Define("MaxPoolGradGrad")
      .Doc(
          "the element of grad at the largest value of each MaxPool window, the first if several "
          "are equal")
      .Input("orig_input: T")
      .Input("orig_output: T")
      .Input("grad: T")
      .Output("output: T")
      .Attr("ksize: list(int) >= 4")
      .Attr("strides: list(int) >= 4")
      .Attr("padding: {'SAME', 'VALID'}")
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
      .Attr("T: {half, bfloat16, float, double, int32, int64, uint8}")
      .Shape(MaxPoolGradGradShape)
      .Sharding(MaxPoolGradSharding)
      .Gradient(MaxPoolGradGradGradient);
}

namespace ops {

Output MaxPool(const Scope& scope, Output input, absl::Span<const int64_t> ksize,
               absl::Span<const int64_t> strides, absl::string_view padding,
               const MaxPoolOptions& options) {
  return FinishWindow(Build(scope, "MaxPool", {input}).Attr("ksize", AttrValue::List(ksize)),
                      strides, padding, options);
}

Output MaxPoolGrad(const Scope& scope, Output orig_input, Output orig_output, Output grad,
                   absl::Span<const int64_t> ksize, absl::Span<const int64_t> strides,
                   absl::string_view padding, const MaxPoolOptions& options) {
  return FinishWindow(Build(scope, "MaxPoolGrad", {orig_input, orig_output, grad})
                          .Attr("ksize", AttrValue::List(ksize)),
                      strides, padding, options);
}

Output MaxPoolGradGrad(const Scope& scope, Output orig_input, Output orig_output, Output grad,
                       absl::Span<const int64_t> ksize, absl::Span<const int64_t> strides,
                       absl::string_view padding, const MaxPoolGradGradOptions& options) {
  return FinishWindow(Build(scope, "MaxPoolGradGrad", {orig_input, orig_output, grad})
                          .Attr("ksize", AttrValue::List(ksize)),
                      strides, padding, options);
}

}  // namespace ops
}  // namespace mirrorflow
