// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_MAX_POOL_H_
#define MIRRORFLOW_OPS_MAX_POOL_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterMaxPool(OpRegistry& ops);

namespace ops {

inline constexpr char kMaxPool[] = "MaxPool";  // for passes that are about it
inline constexpr char kMaxPoolGrad[] = "MaxPoolGrad";

struct MaxPoolOptions {
  // For padding EXPLICIT: before and after each dimension; less than the window.
  std::vector<int64_t> explicit_paddings = {};
  std::string data_format = "NHWC";  // or "NCHW"
};

// MaxPool: the largest value of each channel under a window. Padding is never the largest, NaN
//           always is.
// Shapes:   input [N,H,W,C] -> output [N,H',W',C]; with padding SAME H' = ceil(H/stride), with
//           VALID H' = ceil((H-size+1)/stride). N may be 0.
// Dtypes:   float, double, int32, int64, uint8.
// Windows:  ksize {1, height, width, 1}, strides likewise.
// Gradient: MaxPoolGrad.
Output MaxPool(const Scope& scope, Output input, absl::Span<const int64_t> ksize,
               absl::Span<const int64_t> strides, absl::string_view padding,
               const MaxPoolOptions& options = {});

// MaxPoolGrad: grad goes to the first largest value of each window, row by row, which a NaN is.
// Linear in grad.
// Gradient: MaxPoolGradGrad.
Output MaxPoolGrad(const Scope& scope, Output orig_input, Output orig_output, Output grad,
                   absl::Span<const int64_t> ksize, absl::Span<const int64_t> strides,
                   absl::string_view padding, const MaxPoolOptions& options = {});

struct MaxPoolGradGradOptions {
  std::string data_format = "NHWC";  // or "NCHW"
};

// MaxPoolGradGrad: the gradient of grad of MaxPoolGrad. Of `grad`, in the shape of orig_input, what
// stands where the first largest value of each window is. Linear in grad; TensorFlow's op has no
// explicit paddings.
Output MaxPoolGradGrad(const Scope& scope, Output orig_input, Output orig_output, Output grad,
                       absl::Span<const int64_t> ksize, absl::Span<const int64_t> strides,
                       absl::string_view padding, const MaxPoolGradGradOptions& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_MAX_POOL_H_
