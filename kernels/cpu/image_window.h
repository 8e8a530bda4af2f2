// SPDX-License-Identifier: Apache-2.0
//
// The window of an op over images, from its attributes (ops/window_attrs.h) and local shapes.
#ifndef MIRRORFLOW_KERNELS_CPU_IMAGE_WINDOW_H_
#define MIRRORFLOW_KERNELS_CPU_IMAGE_WINDOW_H_

#include "kernels/cpu/window.h"
#include "ops/window_attrs.h"

namespace mirrorflow {

// i: 0 for height, 1 for width; `size` of the window in that dimension.
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
  // TensorFlow's SAME puts the odd one after.
  if (attrs.same_padding) window.before = window.after() / 2;
  return window;
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_IMAGE_WINDOW_H_
