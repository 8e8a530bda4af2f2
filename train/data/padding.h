// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_DATA_PADDING_H_
#define MIRRORFLOW_TRAIN_DATA_PADDING_H_

#include <algorithm>
#include <vector>

#include "framework/core/shape.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// How rows of different shapes form one batch: each is padded at the end of its dimensions.
struct Padding {
  // The padded shape of the rows of each component. An unknown dimension is that of the longest row
  // in the batch. Empty: all dimensions are unknown.
  std::vector<Shape> padded_shapes = {};
  // For each component, a scalar of its dtype. Empty: zeros.
  std::vector<Tensor> padding_values = {};

  // Whether the shapes of a batch are independent of its rows.
  bool has_fixed_shapes() const {
    return !padded_shapes.empty() &&
           std::all_of(padded_shapes.begin(), padded_shapes.end(),
                       [](const Shape& shape) { return shape.IsFullyDefined(); });
  }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_PADDING_H_
