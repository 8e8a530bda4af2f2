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

namespace mirrorflow {

void RegisterConv2D(OpRegistry& ops);

namespace ops {

// As TensorFlow has them; other values than these defaults are Unimplemented (use_cudnn_on_gpu says
// nothing on a CPU).
struct Conv2DOptions {
  bool use_cudnn_on_gpu = true;
  std::vector<int64_t> explicit_paddings = {};
  std::string data_format = "NHWC";
  std::vector<int64_t> dilations = {1, 1, 1, 1};
};

// Conv2D: cross-correlation of images with a filter, zeros around the images where padding asks.
//   output[n,y,x,o] = sum_{i,j,c} input[n, y*stride+i-before, x*stride+j-before, c] *
//   filter[i,j,c,o]
// Shapes:   input [N,H,W,C], filter [FH,FW,C,O] -> output [N,H',W',O]; with padding SAME
//           H' = ceil(H/stride), with VALID H' = ceil((H-FH+1)/stride). N may be 0.
// Dtypes:   float, double, int32.
// Strides:  {1, height, width, 1}.
// Sharding: the batch, and the channels of either side; a gradient contracts one of them.
// Gradient: Conv2DBackpropInput and Conv2DBackpropFilter of dy, as in TensorFlow.
Output Conv2D(const Scope& scope, Output input, Output filter, absl::Span<const int64_t> strides,
              absl::string_view padding, const Conv2DOptions& options = {});

// Conv2DBackpropInput: the gradient of the images; input_sizes is their shape, an int32 vector.
Output Conv2DBackpropInput(const Scope& scope, Output input_sizes, Output filter,
                           Output out_backprop, absl::Span<const int64_t> strides,
                           absl::string_view padding, const Conv2DOptions& options = {});

// Conv2DBackpropFilter: the gradient of the filter; filter_sizes is its shape, an int32 vector. It
// is 0 for no images. Not for int32.
Output Conv2DBackpropFilter(const Scope& scope, Output input, Output filter_sizes,
                            Output out_backprop, absl::Span<const int64_t> strides,
                            absl::string_view padding, const Conv2DOptions& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONV2D_H_
