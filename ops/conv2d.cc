// SPDX-License-Identifier: Apache-2.0
#include "ops/conv2d.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/convolution.h"
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

// Letter c stands for image channels, o for output channels. Grouped channels are not sharded.
absl::StatusOr<ConvolutionTerms> TermsFor(const Node& node, const Shape& images,
                                          const Shape& filter) {
  MF_ASSIGN_OR_RETURN(const ImageLayout layout, ReadImageLayout(node));
  if (images.dim(layout.channels) != filter.dim(2)) {
    return ConvolutionTerms{layout.Term("n", "."), "....", layout.Term("n", ".")};
  }
  return ConvolutionTerms{layout.Term("n", "c"), "..co", layout.Term("n", "o")};
}

constexpr ConvolutionFamily kFamily = {
    .forward = ops::kConv2D,
    .backprop_input = "Conv2DBackpropInput",
    .backprop_filter = "Conv2DBackpropFilter",
    .doc = "cross-correlation of zero-padded images with a filter",
    .dtypes = "T: {half, bfloat16, float, double, int32}",
    .attr = "use_cudnn_on_gpu: bool = true",
    .traits = kSumsProducts,
    .output_shape = ConvolutionShape,
    .terms = TermsFor};

}  // namespace

void RegisterConv2D(OpRegistry& ops) { DefineConvolutions<kFamily>(ops); }

namespace ops {

Output Conv2D(const Scope& scope, Output input, Output filter, absl::Span<const int64_t> strides,
              absl::string_view padding, const Conv2DOptions& options) {
  return FinishWindow(Build(scope, kConv2D, {input, filter}), strides, padding, options);
}

Output Conv2DBackpropInput(const Scope& scope, Output input_sizes, Output filter,
                           Output out_backprop, absl::Span<const int64_t> strides,
                           absl::string_view padding, const Conv2DOptions& options) {
  return FinishWindow(Build(scope, kFamily.backprop_input, {input_sizes, filter, out_backprop}),
                      strides, padding, options);
}

Output Conv2DBackpropFilter(const Scope& scope, Output input, Output filter_sizes,
                            Output out_backprop, absl::Span<const int64_t> strides,
                            absl::string_view padding, const Conv2DOptions& options) {
  return FinishWindow(Build(scope, kFamily.backprop_filter, {input, filter_sizes, out_backprop}),
                      strides, padding, options);
}

}  // namespace ops
}  // namespace mirrorflow
