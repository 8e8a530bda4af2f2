// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_AVG_POOL_H_
#define MIRRORFLOW_OPS_AVG_POOL_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow::ops {

struct AvgPoolOptions {
  std::string data_format = "NHWC";  // or "NCHW"
};

// AvgPool: the mean of each channel over a window; padding is not counted.
// Shapes:   value [N,H,W,C] -> output [N,H',W',C]; with padding SAME H' = ceil(H/stride), with
//           VALID H' = ceil((H-size+1)/stride). N may be 0.
// Dtypes:   half, bfloat16, float, double.
// Windows:  ksize and strides are {1, height, width, 1}; with NCHW, {1, 1, height, width}.
// Errors:   InvalidArgument if an attribute is invalid or a window does not fit; Unimplemented for
//           windows over the batch or the channels.
// Gradient: AvgPoolGrad.
Output AvgPool(const Scope& scope, Output value, absl::Span<const int64_t> ksize,
               absl::Span<const int64_t> strides, absl::string_view padding,
               const AvgPoolOptions& options = {});

// AvgPoolGrad: distributes each element of `grad` equally over the pixels of its window.
// orig_input_shape, the shape of the images, is an int32 vector that must be known when the step is
// compiled.
Output AvgPoolGrad(const Scope& scope, Output orig_input_shape, Output grad,
                   absl::Span<const int64_t> ksize, absl::Span<const int64_t> strides,
                   absl::string_view padding, const AvgPoolOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_AVG_POOL_H_
