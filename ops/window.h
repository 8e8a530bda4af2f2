// SPDX-License-Identifier: Apache-2.0
//
// The geometry of a window that moves over an image, for convolutions and pooling.
#ifndef MIRRORFLOW_OPS_WINDOW_H_
#define MIRRORFLOW_OPS_WINDOW_H_

#include <algorithm>
#include <cstdint>

#include "framework/core/shape.h"
#include "ops/window_attrs.h"

namespace mirrorflow {

// One dimension. Tap `i` of the window at position `o` reads input
// o * stride - before + i * dilation; inputs outside the image are padding.
struct Window {
  int64_t in = 0;
  int64_t out = 0;
  int64_t size = 0;
  int64_t stride = 1;
  int64_t before = 0;  // padding
  int64_t dilation = 1;

  int64_t start(int64_t o) const { return o * stride - before; }
  // The number of inputs from the first to the last tap.
  int64_t extent() const { return (size - 1) * dilation + 1; }
  // The padding that the last position needs after the image.
  int64_t after() const { return std::max<int64_t>(start(out - 1) + extent() - in, 0); }
  // Without dilation, the inputs that position `o` covers: [first(o), last(o)).
  int64_t first(int64_t o) const { return std::max<int64_t>(start(o), 0); }
  int64_t last(int64_t o) const { return std::min(start(o) + size, in); }
  // The taps of position `o` that lie inside the image: [first_tap(o), last_tap(o)).
  int64_t first_tap(int64_t o) const {
    return start(o) >= 0 ? 0 : (dilation - 1 - start(o)) / dilation;
  }
  int64_t last_tap(int64_t o) const {
    return start(o) >= in ? 0 : std::min(size, (in - start(o) + dilation - 1) / dilation);
  }
};

// i: 0 for height, 1 for width; `size` is that of the window in this dimension.
inline Window WindowOf(const WindowAttrs& attrs, int i, const Shape& images, const Shape& output,
                       int64_t size) {
  const WindowAttrs::Dim& dim = attrs.dims[i];
  const int d = attrs.layout.space[i];
  Window window = {.in = images.dim(d),
                   .out = output.dim(d),
                   .size = size,
                   .stride = dim.stride,
                   .before = dim.before,
                   .dilation = dim.dilation};
  // TensorFlow's SAME puts the odd padding element after the image.
  if (attrs.same_padding) window.before = window.after() / 2;
  return window;
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_WINDOW_H_
