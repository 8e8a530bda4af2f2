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

// Letter c stands for channels. Output channels form groups, one per image channel.
absl::StatusOr<ConvolutionTerms> TermsFor(const Node& node, const Shape&, const Shape&) {
  MF_ASSIGN_OR_RETURN(const ImageLayout layout, ReadImageLayout(node));
  return ConvolutionTerms{layout.Term("n", "c"), "..c.", layout.Term("n", "c")};
}

constexpr ConvolutionFamily kFamily = {
    .forward = ops::kDepthwiseConv2dNative,
    .backprop_input = "DepthwiseConv2dNativeBackpropInput",
    .backprop_filter = "DepthwiseConv2dNativeBackpropFilter",
    .doc = "cross-correlation of each image channel with its own filters",
    .dtypes = "T: {half, bfloat16, float, double}",
    .output_shape = OutputShape,
    .terms = TermsFor};

}  // namespace

void RegisterDepthwiseConv2d(OpRegistry& ops) { DefineConvolutions<kFamily>(ops); }

namespace ops {

Output DepthwiseConv2dNative(const Scope& scope, Output input, Output filter,
                             absl::Span<const int64_t> strides, absl::string_view padding,
                             const DepthwiseConv2dOptions& options) {
  return FinishWindow(Build(scope, kDepthwiseConv2dNative, {input, filter}), strides, padding,
                      options);
}

Output DepthwiseConv2dNativeBackpropInput(const Scope& scope, Output input_sizes, Output filter,
                                          Output out_backprop, absl::Span<const int64_t> strides,
                                          absl::string_view padding,
                                          const DepthwiseConv2dOptions& options) {
  return FinishWindow(Build(scope, kFamily.backprop_input, {input_sizes, filter, out_backprop}),
                      strides, padding, options);
}

Output DepthwiseConv2dNativeBackpropFilter(const Scope& scope, Output input, Output filter_sizes,
                                           Output out_backprop, absl::Span<const int64_t> strides,
                                           absl::string_view padding,
                                           const DepthwiseConv2dOptions& options) {
  return FinishWindow(Build(scope, kFamily.backprop_filter, {input, filter_sizes, out_backprop}),
                      strides, padding, options);
}

}  // namespace ops
}  // namespace mirrorflow
