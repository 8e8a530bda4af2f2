// SPDX-License-Identifier: Apache-2.0
#include "ops/depthwise_conv2d.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/shape_ops.h"
#include "ops/shape_values.h"
#include "ops/window.h"

namespace mirrorflow {
namespace {

constexpr char kBackpropInput[] = "DepthwiseConv2dNativeBackpropInput";
constexpr char kBackpropFilter[] = "DepthwiseConv2dNativeBackpropFilter";

// Returns the output shape for `input` and `filter`, both of rank 4.
absl::StatusOr<Shape> OutputShape(const Node& node, const Shape& input, const Shape& filter) {
  MF_ASSIGN_OR_RETURN(const WindowAttrs attrs, ReadWindowAttrs(node));
  const ImageLayout& layout = attrs.layout;
  int64_t channels = input.dim(layout.channels);
  const int64_t expected = filter.dim(2), each = filter.dim(3);
  if (channels == kUnknownDim) channels = expected;
  if (expected != kUnknownDim && channels != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("channels of images ", input.ToString(), " and filter ", filter.ToString(),
                     " do not match; expected ", expected, ", got ", channels));
  }
  Shape output = input;
  output.set_dim(layout.channels, kUnknownDim);
  if (channels != kUnknownDim && each != kUnknownDim) {
    MF_ASSIGN_OR_RETURN(const int64_t all, CheckedMultiply(channels, each));
    output.set_dim(layout.channels, all);
  }
  for (int i = 0; i < 2; ++i) {
    MF_ASSIGN_OR_RETURN(const int64_t size,
                        WindowPositions(input.dim(layout.space[i]), filter.dim(i), attrs, i));
    output.set_dim(layout.space[i], size);
  }
  return output;
}

// Returns static input i, which must have four elements, as a shape.
absl::StatusOr<Shape> FourSizes(const ShapeContext& c, int i, absl::string_view name) {
  MF_ASSIGN_OR_RETURN(Shape sizes, SizesInput(c, i, name));
  if (sizes.unknown_rank()) return Shape::UnknownDims(4);
  if (sizes.rank() == 4) return sizes;
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must have 4 elements, got ", sizes.ToString()));
}

absl::Status ForwardShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape input, c.WithRank(0, 4));
  MF_ASSIGN_OR_RETURN(const Shape filter, c.WithRank(1, 4));
  MF_ASSIGN_OR_RETURN(Shape output, OutputShape(c.node(), input, filter));
  c.set_output(0, std::move(output));
  return absl::OkStatus();
}

absl::Status CheckOutBackprop(const ShapeContext& c, const Shape& input, const Shape& filter) {
  MF_ASSIGN_OR_RETURN(const Shape output, OutputShape(c.node(), input, filter));
  if (c.input(2).IsCompatibleWith(output)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "out_backprop must have the output shape of the convolution of ", input.ToString(), " with ",
      filter.ToString(), "; expected ", output.ToString(), ", got ", c.input(2).ToString()));
}

absl::Status BackpropInputShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape input, FourSizes(c, 0, "input_sizes"));
  MF_ASSIGN_OR_RETURN(const Shape filter, c.WithRank(1, 4));
  MF_RETURN_IF_ERROR(CheckOutBackprop(c, input, filter));
  c.set_output(0, input);
  return absl::OkStatus();
}

absl::Status BackpropFilterShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape input, c.WithRank(0, 4));
  MF_ASSIGN_OR_RETURN(const Shape filter, FourSizes(c, 1, "filter_sizes"));
  MF_RETURN_IF_ERROR(CheckOutBackprop(c, input, filter));
  c.set_output(0, filter);
  return absl::OkStatus();
}

// Letter n stands for images, c for channels. Output channels form groups, one per image channel.
absl::StatusOr<ShardingRule> ForwardSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const ImageLayout layout, ReadImageLayout(c.node()));
  const std::string images = layout.Term("n", "c");
  return ShardingRule{.dims = absl::StrCat(images, ",..c.->", images),
                      .linearity = Linearity::kMulti};
}
absl::StatusOr<ShardingRule> BackpropInputSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const ImageLayout layout, ReadImageLayout(c.node()));
  const std::string images = layout.Term("n", "c");
  return ShardingRule{.dims = absl::StrCat(".,..c.,", images, "->", images),
                      .linearity = Linearity::kMulti,
                      .linear_inputs = {1, 2}};
}
absl::StatusOr<ShardingRule> BackpropFilterSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const ImageLayout layout, ReadImageLayout(c.node()));
  const std::string images = layout.Term("n", "c");
  return ShardingRule{.dims = absl::StrCat(images, ",.,", images, "->..c."),
                      .linearity = Linearity::kMulti,
                      .linear_inputs = {0, 2}};
}

Output InputGradient(const GradContext& c, Output input, Output filter, Output dy) {
  return ops::ApplyWithSameAttrs(c, kBackpropInput,
                                 {ops::ShapeOperand(c.scope, input), filter, dy});
}
Output FilterGradient(const GradContext& c, Output input, Output filter, Output dy) {
  return ops::ApplyWithSameAttrs(c, kBackpropFilter,
                                 {input, ops::ShapeOperand(c.scope, filter), dy});
}

absl::StatusOr<std::vector<Output>> ForwardGrad(const GradContext& c) {
  const Output input = c.op.input(0), filter = c.op.input(1), dy = c.dy[0];
  return std::vector<Output>{InputGradient(c, input, filter, dy),
                             FilterGradient(c, input, filter, dy)};
}

// The convolution is linear in the images and in the filter, so the gradients of the gradient ops
// are these same three ops.
absl::StatusOr<std::vector<Output>> BackpropInputGrad(const GradContext& c) {
  const Output filter = c.op.input(1), out_backprop = c.op.input(2), images = c.dy[0];
  return std::vector<Output>{
      Output(), FilterGradient(c, images, filter, out_backprop),
      ops::ApplyWithSameAttrs(c, ops::kDepthwiseConv2dNative, {images, filter})};
}

absl::StatusOr<std::vector<Output>> BackpropFilterGrad(const GradContext& c) {
  const Output input = c.op.input(0), out_backprop = c.op.input(2), filter = c.dy[0];
  return std::vector<Output>{
      InputGradient(c, input, filter, out_backprop), Output(),
      ops::ApplyWithSameAttrs(c, ops::kDepthwiseConv2dNative, {input, filter})};
}

OpBuilder& CommonAttrs(OpBuilder& op) {
  return op.Attr("T: {half, bfloat16, float, double}")
      .Attr("strides: list(int)")
      .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
      .Attr("explicit_paddings: list(int) = []")
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
      .Attr("dilations: list(int) = [1, 1, 1, 1]");
}

}  // namespace

void RegisterDepthwiseConv2d(OpRegistry& ops) {
  CommonAttrs(ops.Define(ops::kDepthwiseConv2dNative)
                  .Doc("cross-correlation of each image channel with its own filters")
                  .Input("input: T")
                  .Input("filter: T")
                  .Output("output: T"))
      .Shape(ForwardShape)
      .Sharding(ForwardSharding)
      .Gradient(ForwardGrad);
  CommonAttrs(ops.Define(kBackpropInput)
                  .Doc("the gradient of DepthwiseConv2dNative with respect to the images")
                  .StaticInput("input_sizes: int32")
                  .Input("filter: T")
                  .Input("out_backprop: T")
                  .Output("output: T"))
      .Shape(BackpropInputShape)
      .Sharding(BackpropInputSharding)
      .Gradient(BackpropInputGrad);
  CommonAttrs(ops.Define(kBackpropFilter)
                  .Doc("the gradient of DepthwiseConv2dNative with respect to the filter")
                  .Input("input: T")
                  .StaticInput("filter_sizes: int32")
                  .Input("out_backprop: T")
                  .Output("output: T"))
      .Shape(BackpropFilterShape)
      .Sharding(BackpropFilterSharding)
      .Gradient(BackpropFilterGrad);
}

namespace ops {
namespace {

Output Finish(NodeBuilder builder, absl::Span<const int64_t> strides, absl::string_view padding,
              const DepthwiseConv2dOptions& options) {
  return std::move(builder)
      .Attr("strides", AttrValue::List(strides))
      .Attr("padding", padding)
      .Attr("explicit_paddings", AttrValue::List<int64_t>(options.explicit_paddings))
      .Attr("data_format", options.data_format)
      .Attr("dilations", AttrValue::List<int64_t>(options.dilations))
      .One();
}

}  // namespace

Output DepthwiseConv2dNative(const Scope& scope, Output input, Output filter,
                             absl::Span<const int64_t> strides, absl::string_view padding,
                             const DepthwiseConv2dOptions& options) {
  return Finish(Build(scope, ops::kDepthwiseConv2dNative, {input, filter}), strides, padding,
                options);
}

Output DepthwiseConv2dNativeBackpropInput(const Scope& scope, Output input_sizes, Output filter,
                                          Output out_backprop, absl::Span<const int64_t> strides,
                                          absl::string_view padding,
                                          const DepthwiseConv2dOptions& options) {
  return Finish(Build(scope, kBackpropInput, {input_sizes, filter, out_backprop}), strides, padding,
                options);
}

Output DepthwiseConv2dNativeBackpropFilter(const Scope& scope, Output input, Output filter_sizes,
                                           Output out_backprop, absl::Span<const int64_t> strides,
                                           absl::string_view padding,
                                           const DepthwiseConv2dOptions& options) {
  return Finish(Build(scope, kBackpropFilter, {input, filter_sizes, out_backprop}), strides,
                padding, options);
}

}  // namespace ops
}  // namespace mirrorflow
