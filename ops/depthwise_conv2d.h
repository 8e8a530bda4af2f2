// SPDX-License-Identifier: Apache-2.0
//
// DepthwiseConv2dNative and its two gradients.
#ifndef MIRRORFLOW_OPS_DEPTHWISE_CONV2D_H_
#define MIRRORFLOW_OPS_DEPTHWISE_CONV2D_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr char kDepthwiseConv2dNative[] = "DepthwiseConv2dNative";

struct DepthwiseConv2dOptions {
  std::vector<int64_t> explicit_paddings = {};
  std::string data_format = "NHWC";  // or "NCHW"
  std::vector<int64_t> dilations = {1, 1, 1, 1};
};

// DepthwiseConv2dNative: cross-correlation of each image channel with M filters. No two channels
// share a filter.
//   output[n,y,x,c*M+m] = sum_{i,j} filter[i,j,c,m] *
//       input[n, y*stride+i*dilation-before, x*stride+j*dilation-before, c]
// Shapes:   input [N,H,W,C], filter [FH,FW,C,M] -> output [N,H',W',C*M]; sizes, layouts, strides
//           and paddings are as for Conv2D.
// Dtypes:   half, bfloat16, float, double.
// Gradient: the two ops below, applied to dy, as in TensorFlow.
Output DepthwiseConv2dNative(const Scope& scope, Output input, Output filter,
                             absl::Span<const int64_t> strides, absl::string_view padding,
                             const DepthwiseConv2dOptions& options = {});

// DepthwiseConv2dNativeBackpropInput: the gradient of the images. Their shape is input_sizes, an
// int32 vector that must be known when the step is compiled.
Output DepthwiseConv2dNativeBackpropInput(const Scope& scope, Output input_sizes, Output filter,
                                          Output out_backprop, absl::Span<const int64_t> strides,
                                          absl::string_view padding,
                                          const DepthwiseConv2dOptions& options = {});

// DepthwiseConv2dNativeBackpropFilter: the gradient of the filter. Its shape is filter_sizes, an
// int32 vector that must be known when the step is compiled.
Output DepthwiseConv2dNativeBackpropFilter(const Scope& scope, Output input, Output filter_sizes,
                                           Output out_backprop, absl::Span<const int64_t> strides,
                                           absl::string_view padding,
                                           const DepthwiseConv2dOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_DEPTHWISE_CONV2D_H_
