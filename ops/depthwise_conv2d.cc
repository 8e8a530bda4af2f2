// SPDX-License-Identifier: Apache-2.0
#include "ops/depthwise_conv2d.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/convolution.h"
#include "ops/window.h"

namespace mirrorflow {
namespace {

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

constexpr ConvolutionFamily kFamily = {.forward = ops::kDepthwiseConv2dNative,
                                       .backprop_input = "DepthwiseConv2dNativeBackpropInput",
                                       .backprop_filter = "DepthwiseConv2dNativeBackpropFilter",
                                       .output_shape = OutputShape};

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

OpBuilder& CommonAttrs(OpBuilder& op) {
  return ConvolutionAttrs(op.Attr("T: {half, bfloat16, float, double}").Attr("strides: list(int)"));
}

}  // namespace

void RegisterDepthwiseConv2d(OpRegistry& ops) {
  CommonAttrs(ops.Define(ops::kDepthwiseConv2dNative)
                  .Doc("cross-correlation of each image channel with its own filters")
                  .Input("input: T")
                  .Input("filter: T")
                  .Output("output: T"))
      .Shape(ConvolutionForwardShape<kFamily>)
      .Sharding(ForwardSharding)
      .Gradient(ConvolutionForwardGrad<kFamily>);
  CommonAttrs(ops.Define(kFamily.backprop_input)
                  .Doc("the gradient of DepthwiseConv2dNative with respect to the images")
                  .StaticInput("input_sizes: int32")
                  .Input("filter: T")
                  .Input("out_backprop: T")
                  .Output("output: T"))
      .Shape(ConvolutionBackpropShape<kFamily, 0>)
      .Sharding(BackpropInputSharding)
      .Gradient(ConvolutionBackpropGrad<kFamily, 0>);
  CommonAttrs(ops.Define(kFamily.backprop_filter)
                  .Doc("the gradient of DepthwiseConv2dNative with respect to the filter")
                  .Input("input: T")
                  .StaticInput("filter_sizes: int32")
                  .Input("out_backprop: T")
                  .Output("output: T"))
      .Shape(ConvolutionBackpropShape<kFamily, 1>)
      .Sharding(BackpropFilterSharding)
      .Gradient(ConvolutionBackpropGrad<kFamily, 1>);
}

namespace ops {

Output DepthwiseConv2dNative(const Scope& scope, Output input, Output filter,
                             absl::Span<const int64_t> strides, absl::string_view padding,
                             const DepthwiseConv2dOptions& options) {
  return FinishConvolution(Build(scope, kDepthwiseConv2dNative, {input, filter}), strides, padding,
                           options);
}

Output DepthwiseConv2dNativeBackpropInput(const Scope& scope, Output input_sizes, Output filter,
                                          Output out_backprop, absl::Span<const int64_t> strides,
                                          absl::string_view padding,
                                          const DepthwiseConv2dOptions& options) {
  return FinishConvolution(
      Build(scope, kFamily.backprop_input, {input_sizes, filter, out_backprop}), strides, padding,
      options);
}

Output DepthwiseConv2dNativeBackpropFilter(const Scope& scope, Output input, Output filter_sizes,
                                           Output out_backprop, absl::Span<const int64_t> strides,
                                           absl::string_view padding,
                                           const DepthwiseConv2dOptions& options) {
  return FinishConvolution(
      Build(scope, kFamily.backprop_filter, {input, filter_sizes, out_backprop}), strides, padding,
      options);
}

}  // namespace ops
}  // namespace mirrorflow
