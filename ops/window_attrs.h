// SPDX-License-Identifier: Apache-2.0
//
// What the ops that move a window over an image share: their attributes and the size of what they
// make.
#ifndef MIRRORFLOW_OPS_WINDOW_ATTRS_H_
#define MIRRORFLOW_OPS_WINDOW_ATTRS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// Unimplemented unless attribute `data_format` is NHWC.
absl::Status CheckNhwc(const Node& node);

// How the window moves: over height, then width.
struct WindowAttrs {
  int64_t stride[2];
  bool same_padding;
};

// Reads `strides`, `padding` and, where the op has them, `explicit_paddings` and `dilations`.
// InvalidArgument for what is wrong in any case, Unimplemented for what this library lacks: NCHW,
// explicit padding, dilations, strides over batch or channels.
absl::StatusOr<WindowAttrs> ReadWindowAttrs(const Node& node);

// Checks a list attribute that has a number for each of the four dimensions of an image; the first
// and the last must be 1, the others at least 1.
absl::Status CheckSpatialList(absl::string_view name, absl::Span<const int64_t> values);

// At how many positions a window of `size` stands over `in` rows; unknown if one of them is.
// InvalidArgument if the window is empty or too large.
absl::StatusOr<int64_t> WindowPositions(int64_t in, int64_t size, int64_t stride,
                                        bool same_padding);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_WINDOW_ATTRS_H_
