// SPDX-License-Identifier: Apache-2.0
//
// How a window moves over an image, for convolutions and pooling (NHWC).
#ifndef MIRRORFLOW_KERNELS_CPU_WINDOW_H_
#define MIRRORFLOW_KERNELS_CPU_WINDOW_H_

#include <algorithm>
#include <cstdint>

namespace mirrorflow {

// One dimension. Position `o` of the window covers the inputs from o * stride - before on, as far
// as they are inside the image.
struct Window {
  int64_t in = 0;
  int64_t out = 0;
  int64_t size = 0;
  int64_t stride = 1;
  int64_t before = 0;  // padding; TensorFlow's SAME puts the odd one after

  Window() = default;
  Window(int64_t in, int64_t out, int64_t size, int64_t stride, bool same_padding)
      : in(in), out(out), size(size), stride(stride) {
    if (same_padding) before = std::max<int64_t>((out - 1) * stride + size - in, 0) / 2;
  }

  int64_t after() const { return std::max<int64_t>((out - 1) * stride + size - in - before, 0); }
  // The inputs that position `o` covers: [first(o), last(o)).
  int64_t first(int64_t o) const { return std::max<int64_t>(o * stride - before, 0); }
  int64_t last(int64_t o) const { return std::min(o * stride - before + size, in); }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_WINDOW_H_
