// SPDX-License-Identifier: Apache-2.0
#include "ops/conv2d.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/registry.h"
#include "ops/shape_ops.h"
#include "ops/window.h"

namespace mirrorflow {
namespace {

// Checks the channel counts. If the filter has fewer channels than the images, the convolution is
// grouped: image channels and output channels form the same number of groups, and each output group
// is computed from one image group.
absl::Status CheckGroups(const Shape& input, int64_t channels, const Shape& filter) {
  const int64_t of_group = filter.dim(2), outputs = filter.dim(3);
  if (channels == kUnknownDim || of_group == kUnknownDim || channels == of_group) {
    return absl::OkStatus();
  }
  if (of_group == 0 || channels % of_group != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("channels of images ", input.ToString(), " and filter ", filter.ToString(),
                     " do not match; expected a multiple of ", of_group, ", got ", channels));
  }
  const int64_t groups = channels / of_group;
  if (groups == 0 || outputs == kUnknownDim || outputs % groups == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("output channels of filter ", filter.ToString(),
                                                 " must be divisible into ", groups,
                                                 " groups, got ", outputs));
}

// Returns the output shape of the convolution of `input` with `filter`, both of rank 4.
absl::StatusOr<Shape> ConvolutionShape(const Node& node, const Shape& input, const Shape& filter) {
  MF_ASSIGN_OR_RETURN(const WindowAttrs attrs, ReadWindowAttrs(node));
  const ImageLayout& layout = attrs.layout;
  MF_RETURN_IF_ERROR(CheckGroups(input, input.dim(layout.channels), filter));
  Shape output = input;
  output.set_dim(layout.channels, filter.dim(3));
  for (int i = 0; i < 2; ++i) {
    MF_ASSIGN_OR_RETURN(const int64_t size,
                        WindowPositions(input.dim(layout.space[i]), filter.dim(i), attrs, i));
    output.set_dim(layout.space[i], size);
  }
  return output;
}

absl::Status Conv2DShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape input, c.WithRank(0, 4));
  MF_ASSIGN_OR_RETURN(const Shape filter, c.WithRank(1, 4));
  MF_ASSIGN_OR_RETURN(const Shape output, ConvolutionShape(c.node(), input, filter));
  c.set_output(0, output);
  return absl::OkStatus();
}

// Returns input i, a vector of sizes, as a shape of rank 4.
absl::StatusOr<Shape> SizesInput(const ShapeContext& c, int i) {
  MF_ASSIGN_OR_RETURN(const Shape sizes, c.input_as_shape(i));
  if (sizes.unknown_rank()) return Shape::UnknownDims(4);
  if (sizes.rank() == 4) return sizes;
  return absl::InvalidArgumentError(
      absl::StrCat("input ", i, " must have 4 elements, got ", sizes.ToString()));
}

// Checks that out_backprop can be the output of the convolution of `input` with `filter`.
absl::Status CheckOutBackprop(const ShapeContext& c, const Shape& input, const Shape& filter) {
  MF_ASSIGN_OR_RETURN(const Shape dy, c.WithRank(2, 4));
  MF_ASSIGN_OR_RETURN(const Shape output, ConvolutionShape(c.node(), input, filter));
  if (dy.IsCompatibleWith(output)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "out_backprop must have the output shape of the convolution of ", input.ToString(), " with ",
      filter.ToString(), "; expected ", output.ToString(), ", got ", dy.ToString()));
}

absl::Status BackpropInputShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape input, SizesInput(c, 0));
  MF_ASSIGN_OR_RETURN(const Shape filter, c.WithRank(1, 4));
  MF_RETURN_IF_ERROR(CheckOutBackprop(c, input, filter));
  c.set_output(0, input);
  return absl::OkStatus();
}

absl::Status BackpropFilterShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape input, c.WithRank(0, 4));
  MF_ASSIGN_OR_RETURN(const Shape filter, SizesInput(c, 1));
  MF_RETURN_IF_ERROR(CheckOutBackprop(c, input, filter));
  c.set_output(0, filter);
  return absl::OkStatus();
}

// Sharding terms. Letter n stands for images, c for image channels, o for output channels. Grouped
// channels are not sharded.
struct Terms {
  std::string images, filter, output;
};
absl::StatusOr<Terms> TermsFor(const Node& node, const Shape& images, const Shape& filter) {
  MF_ASSIGN_OR_RETURN(const ImageLayout layout, ReadImageLayout(node));
  if (images.dim(layout.channels) != filter.dim(2)) {
    return Terms{layout.Term("n", "."), "....", layout.Term("n", ".")};
  }
  return Terms{layout.Term("n", "c"), "..co", layout.Term("n", "o")};
}

absl::StatusOr<ShardingRule> Conv2DSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const Terms terms, TermsFor(c.node(), c.input(0), c.input(1)));
  return ShardingRule{.dims = absl::StrCat(terms.images, ",", terms.filter, "->", terms.output),
                      .linearity = Linearity::kMulti};
}
absl::StatusOr<ShardingRule> BackpropInputSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const Terms terms, TermsFor(c.node(), c.output(0), c.input(1)));
  return ShardingRule{
      .dims = absl::StrCat(".,", terms.filter, ",", terms.output, "->", terms.images),
      .linearity = Linearity::kMulti,
      .linear_inputs = {1, 2}};
}
absl::StatusOr<ShardingRule> BackpropFilterSharding(const ShardContext& c) {
  MF_ASSIGN_OR_RETURN(const Terms terms, TermsFor(c.node(), c.input(0), c.output(0)));
  return ShardingRule{.dims = absl::StrCat(terms.images, ",.,", terms.output, "->", terms.filter),
                      .linearity = Linearity::kMulti,
                      .linear_inputs = {0, 2}};
}

Output InputGradient(const GradContext& c, Output input, Output filter, Output dy) {
  return ops::ApplyWithSameAttrs(c, "Conv2DBackpropInput",
                                 {ops::ShapeOperand(c.scope, input), filter, dy});
}
Output FilterGradient(const GradContext& c, Output input, Output filter, Output dy) {
  return ops::ApplyWithSameAttrs(c, "Conv2DBackpropFilter",
                                 {input, ops::ShapeOperand(c.scope, filter), dy});
}

absl::StatusOr<std::vector<Output>> Conv2DGrad(const GradContext& c) {
  const Output input = c.op.input(0), filter = c.op.input(1), dy = c.dy[0];
  return std::vector<Output>{InputGradient(c, input, filter, dy),
                             FilterGradient(c, input, filter, dy)};
}

// The convolution is linear in the images and in the filter, so the gradients of the gradient ops
// are these same three ops.
absl::StatusOr<std::vector<Output>> BackpropInputGrad(const GradContext& c) {
  const Output filter = c.op.input(1), out_backprop = c.op.input(2), images = c.dy[0];
  return std::vector<Output>{Output(), FilterGradient(c, images, filter, out_backprop),
                             ops::ApplyWithSameAttrs(c, "Conv2D", {images, filter})};
}

absl::StatusOr<std::vector<Output>> BackpropFilterGrad(const GradContext& c) {
  const Output input = c.op.input(0), out_backprop = c.op.input(2), filter = c.dy[0];
  return std::vector<Output>{InputGradient(c, input, filter, out_backprop), Output(),
                             ops::ApplyWithSameAttrs(c, "Conv2D", {input, filter})};
}

OpBuilder& ConvolutionAttrs(OpBuilder& op) {
  return op.Attr("strides: list(int)")
      .Attr("use_cudnn_on_gpu: bool = true")
      .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
      .Attr("explicit_paddings: list(int) = []")
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
      .Attr("dilations: list(int) = [1, 1, 1, 1]");
}

}  // namespace

void RegisterConv2D(OpRegistry& ops) {
  ConvolutionAttrs(ops.Define("Conv2D")
                       .Doc("cross-correlation of zero-padded images with a filter")
                       .Input("input: T")
                       .Input("filter: T")
                       .Output("output: T")
                       .Attr("T: {half, bfloat16, float, double, int32}"))
      .Traits(kSumsProducts)
      .Shape(Conv2DShape)
      .Sharding(Conv2DSharding)
      .Gradient(Conv2DGrad);
  ConvolutionAttrs(ops.Define("Conv2DBackpropInput")
                       .Doc("the gradient of Conv2D with respect to the images")
                       .StaticInput("input_sizes: int32")
                       .Input("filter: T")
                       .Input("out_backprop: T")
                       .Output("output: T")
                       .Attr("T: {half, bfloat16, float, double, int32}"))
      .Traits(kSumsProducts)
      .Shape(BackpropInputShape)
      .Sharding(BackpropInputSharding)
      .Gradient(BackpropInputGrad);
  ConvolutionAttrs(ops.Define("Conv2DBackpropFilter")
                       .Doc("the gradient of Conv2D with respect to the filter")
                       .Input("input: T")
                       .StaticInput("filter_sizes: int32")
                       .Input("out_backprop: T")
                       .Output("output: T")
                       .Attr("T: {half, bfloat16, float, double}"))
      .Traits(kSumsProducts)
      .Shape(BackpropFilterShape)
      .Sharding(BackpropFilterSharding)
      .Gradient(BackpropFilterGrad);
}

namespace ops {
namespace {

NodeBuilder WithAttrs(NodeBuilder builder, absl::Span<const int64_t> strides,
                      absl::string_view padding, const Conv2DOptions& options) {
  return std::move(builder)
      .Attr("strides", AttrValue::List(strides))
      .Attr("use_cudnn_on_gpu", options.use_cudnn_on_gpu)
      .Attr("padding", padding)
      .Attr("explicit_paddings", AttrValue::List<int64_t>(options.explicit_paddings))
      .Attr("data_format", options.data_format)
      .Attr("dilations", AttrValue::List<int64_t>(options.dilations));
}

}  // namespace

Output Conv2D(const Scope& scope, Output input, Output filter, absl::Span<const int64_t> strides,
              absl::string_view padding, const Conv2DOptions& options) {
  return WithAttrs(Build(scope, "Conv2D", {input, filter}), strides, padding, options).One();
}

Output Conv2DBackpropInput(const Scope& scope, Output input_sizes, Output filter,
                           Output out_backprop, absl::Span<const int64_t> strides,
                           absl::string_view padding, const Conv2DOptions& options) {
  return WithAttrs(Build(scope, "Conv2DBackpropInput", {input_sizes, filter, out_backprop}),
                   strides, padding, options)
      .One();
}

Output Conv2DBackpropFilter(const Scope& scope, Output input, Output filter_sizes,
                            Output out_backprop, absl::Span<const int64_t> strides,
                            absl::string_view padding, const Conv2DOptions& options) {
  return WithAttrs(Build(scope, "Conv2DBackpropFilter", {input, filter_sizes, out_backprop}),
                   strides, padding, options)
      .One();
}

}  // namespace ops
}  // namespace mirrorflow
