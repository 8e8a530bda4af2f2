// SPDX-License-Identifier: Apache-2.0
//
// Sizes of windows, strides, dilations and borders, with one number per dimension. A single number
// converts to a size that has this number in each dimension, as in Keras: 3 is {3, 3}.
#ifndef MIRRORFLOW_TRAIN_LAYERS_SIZES_H_
#define MIRRORFLOW_TRAIN_LAYERS_SIZES_H_

#include <cstdint>

namespace mirrorflow {
namespace layers {

struct Size2D {
  Size2D(int64_t both) : height(both), width(both) {}  // NOLINT: 3 is {3, 3}
  Size2D(int64_t height, int64_t width) : height(height), width(width) {}

  int64_t height, width;
};

struct Size3D {
  Size3D(int64_t all) : depth(all), height(all), width(all) {}  // NOLINT: 3 is {3, 3, 3}
  Size3D(int64_t depth, int64_t height, int64_t width)
      : depth(depth), height(height), width(width) {}

  int64_t depth, height, width;
};

// How many elements to add or remove before and after one dimension.
struct Border {
  Border(int64_t both) : before(both), after(both) {}  // NOLINT: 1 is {1, 1}
  Border(int64_t before, int64_t after) : before(before), after(after) {}

  int64_t before, after;
};

// How many rows and columns of an image to add or remove: one number for all four sides; {rows,
// columns}, each at both ends; or {{top, bottom}, {left, right}}.
struct Border2D {
  Border2D(int64_t all) : height(all), width(all) {}  // NOLINT: 1 is {1, 1}
  Border2D(Border height, Border width) : height(height), width(width) {}

  Border height, width;
};

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_SIZES_H_
