// SPDX-License-Identifier: Apache-2.0
//
// Conv2D and its two gradients.
#ifndef MIRRORFLOW_OPS_CONV2D_H_
#define MIRRORFLOW_OPS_CONV2D_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr char kConv2D[] = "Conv2D";  // for passes that match this op

// TensorFlow's attributes. Lists have one element per image dimension, except explicit_paddings,
// which has two per dimension, before and after; it is used if the padding is EXPLICIT.
struct Conv2DOptions {
  bool use_cudnn_on_gpu = true;  // ignored
  std::vector<int64_t> explicit_paddings = {};
  std::string data_format = "NHWC";  // or "NCHW"
  std::vector<int64_t> dilations = {1, 1, 1, 1};
};

// Conv2D: cross-correlation of images, zero-padded according to `padding`, with a filter.
//   output[n,y,x,o] = sum_{i,j,c} filter[i,j,c,o] *
//       input[n, y*stride+i*dilation-before, x*stride+j*dilation-before, c]
// Shapes:   input [N,H,W,C], filter [FH,FW,C,O] -> output [N,H',W',O]; with padding SAME H' =
//           ceil(H/stride), with VALID H' = ceil((H-FH+1)/stride), where dilation replaces FH with
//           (FH-1)*dilation+1. N may be 0. With NCHW, images are [N,C,H,W] and the layout of the
//           filter is unchanged.
// Dtypes:   half, bfloat16, float, double, int32.
// Strides:  `strides` is {1, height, width, 1}; with NCHW, {1, 1, height, width}.
// Errors:   InvalidArgument if the filter does not match the images' channels, or if an attribute
//           is invalid; Unimplemented for strides or dilations along the batch or the channels.
// Sharding: along the batch, the input channels or the output channels; each gradient contracts one
//           of these.
// Gradient: Conv2DBackpropInput and Conv2DBackpropFilter of dy, as in TensorFlow.
Output Conv2D(const Scope& scope, Output input, Output filter, absl::Span<const int64_t> strides,
              absl::string_view padding, const Conv2DOptions& options = {});

// Conv2DBackpropInput: the gradient of the images. Their shape is input_sizes, an int32 vector that
// must be known when the step is compiled.
Output Conv2DBackpropInput(const Scope& scope, Output input_sizes, Output filter,
                           Output out_backprop, absl::Span<const int64_t> strides,
                           absl::string_view padding, const Conv2DOptions& options = {});

// Conv2DBackpropFilter: the gradient of the filter. Its shape is filter_sizes, an int32 vector that
// must be known when the step is compiled. The gradient of an empty batch is 0. Does not support
// int32.
Output Conv2DBackpropFilter(const Scope& scope, Output input, Output filter_sizes,
                            Output out_backprop, absl::Span<const int64_t> strides,
                            absl::string_view padding, const Conv2DOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_CONV2D_H_
