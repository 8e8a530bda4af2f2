// SPDX-License-Identifier: Apache-2.0
//
// What the ops that move a window over images share: their attributes, the size of what they make,
// the terms of their sharding rules.
#ifndef MIRRORFLOW_OPS_WINDOW_ATTRS_H_
#define MIRRORFLOW_OPS_WINDOW_ATTRS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// In which dimension of images what is; dimension 0 counts them.
struct ImageLayout {
  int channels = 3;
  int space[2] = {1, 2};  // height, width

  bool nchw() const { return channels == 1; }
  // The term of images in a sharding rule: `n..c`, or `nc..`. Height and width stay whole: a window
  // reaches over the rows of its neighbours.
  std::string Term(absl::string_view batch, absl::string_view channel) const;
};

// From attribute `data_format`; Unimplemented unless that is NHWC or NCHW.
absl::StatusOr<ImageLayout> ReadImageLayout(const Node& node);

// How the window moves.
struct WindowAttrs {
  struct Dim {
    int64_t stride = 1;
    int64_t dilation = 1;
    int64_t before = 0;  // explicit padding
    int64_t after = 0;
  };
  ImageLayout layout;
  bool same_padding = false;
  bool explicit_padding = false;
  Dim dims[2];  // height, width
};

// Reads `data_format`, `strides`, `padding` and, where the op has them, `explicit_paddings` and
// `dilations`. InvalidArgument for what is wrong in any case, Unimplemented for what this library
// lacks: windows over batch or channels.
absl::StatusOr<WindowAttrs> ReadWindowAttrs(const Node& node);

// The numbers of a list attribute for height and width. The list has a number for each of the four
// dimensions of images, which must be 1 for batch and channels and at least 1 for the others.
absl::StatusOr<std::vector<int64_t>> ReadSpatialList(absl::string_view name,
                                                     absl::Span<const int64_t> values,
                                                     const ImageLayout& layout);

// At how many positions a window of `size` stands over `in` rows (i: 0) or columns (i: 1); unknown
// if one of them is. InvalidArgument if the window is empty or too large.
absl::StatusOr<int64_t> WindowPositions(int64_t in, int64_t size, const WindowAttrs& attrs, int i);

// The shape of pooled images: `ksize` is the window.
absl::StatusOr<Shape> PooledShape(const Node& node, const Shape& images);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_WINDOW_ATTRS_H_
