// SPDX-License-Identifier: Apache-2.0
//
// Helpers shared by the ops that move a window over images: their attributes, output sizes and
// sharding terms.
#ifndef MIRRORFLOW_OPS_WINDOW_ATTRS_H_
#define MIRRORFLOW_OPS_WINDOW_ATTRS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

// The positions of the dimensions of images; dimension 0 is the batch.
struct ImageLayout {
  int channels = 3;
  int space[2] = {1, 2};  // height, width

  bool nchw() const { return channels == 1; }
  // The term of images in a sharding rule: `n..c`, or `nc..`. Height and width must be whole: a
  // window overlaps rows of its neighbours.
  std::string Term(absl::string_view batch, absl::string_view channel) const;
};

// Reads attribute `data_format`; Unimplemented unless it is NHWC or NCHW.
absl::StatusOr<ImageLayout> ReadImageLayout(const Node& node);

// Strides, dilations and padding of a window.
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

// Reads `data_format`, `strides`, `padding` and, if the op has them, `explicit_paddings` and
// `dilations`. InvalidArgument for invalid attributes, Unimplemented for windows over batch or
// channels, which this library lacks.
absl::StatusOr<WindowAttrs> ReadWindowAttrs(const Node& node);

// The numbers for height and width of a list attribute. The list has a number for each of the four
// dimensions of images: 1 for batch and channels, at least 1 for the others.
absl::StatusOr<std::vector<int64_t>> ReadSpatialList(absl::string_view name,
                                                     absl::Span<const int64_t> values,
                                                     const ImageLayout& layout);

// The number of positions of a window of `size` over `in` rows (i: 0) or columns (i: 1); unknown if
// `in` or `size` is. InvalidArgument if the window is empty or too large.
absl::StatusOr<int64_t> WindowPositions(int64_t in, int64_t size, const WindowAttrs& attrs, int i);

// The shape of pooled images; attribute `ksize` is the size of the window.
absl::StatusOr<Shape> PooledShape(const Node& node, const Shape& images);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_WINDOW_ATTRS_H_
