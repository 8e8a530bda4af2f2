// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_MAX_POOL_H_
#define MIRRORFLOW_OPS_MAX_POOL_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr char kMaxPool[] = "MaxPool";  // for passes that match these ops
inline constexpr char kMaxPoolGrad[] = "MaxPoolGrad";

struct MaxPoolOptions {
  // The padding before and after each dimension if padding is EXPLICIT. It must be less than the
  // window size.
  std::vector<int64_t> explicit_paddings = {};
  std::string data_format = "NHWC";  // or "NCHW"
};

// MaxPool: the largest value of each channel in a window. Padding is ignored; NaN is treated as
// larger than any number.
// Shapes:   input [N,H,W,C] -> output [N,H',W',C]; with padding SAME H' = ceil(H/stride), with
//           VALID H' = ceil((H-size+1)/stride). N may be 0.
// Dtypes:   half, bfloat16, float, double, int32, int64, uint8.
// Windows:  ksize and strides are {1, height, width, 1}; with NCHW, {1, 1, height, width}.
// Errors:   InvalidArgument if an attribute is invalid or a window does not fit; Unimplemented for
//           windows over the batch or the channels.
// Gradient: MaxPoolGrad.
Output MaxPool(const Scope& scope, Output input, absl::Span<const int64_t> ksize,
               absl::Span<const int64_t> strides, absl::string_view padding,
               const MaxPoolOptions& options = {});

// MaxPoolGrad: passes grad to the largest value of each window (the first in row-major order if
// several are equal); NaN is treated as larger than any number. Linear in grad.
// Gradient: MaxPoolGradGrad.
Output MaxPoolGrad(const Scope& scope, Output orig_input, Output orig_output, Output grad,
                   absl::Span<const int64_t> ksize, absl::Span<const int64_t> strides,
                   absl::string_view padding, const MaxPoolOptions& options = {});

struct MaxPoolGradGradOptions {
  std::string data_format = "NHWC";  // or "NCHW"
};

// MaxPoolGradGrad: the gradient of MaxPoolGrad with respect to its input grad. Here `grad` has the
// shape of orig_input; the output is its element at the largest value of each window (the first if
// several are equal). Linear in grad. Explicit paddings are not supported, as in TensorFlow.
Output MaxPoolGradGrad(const Scope& scope, Output orig_input, Output orig_output, Output grad,
                       absl::Span<const int64_t> ksize, absl::Span<const int64_t> strides,
                       absl::string_view padding, const MaxPoolGradGradOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_MAX_POOL_H_
