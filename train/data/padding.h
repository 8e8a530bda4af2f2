// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_DATA_PADDING_H_
#define MIRRORFLOW_TRAIN_DATA_PADDING_H_

#include <algorithm>
#include <vector>

#include "framework/core/shape.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// How rows of different shapes form one batch: each row is padded at the end of its dimensions.
struct Padding {
  // The padded row shape of each component. An unknown dimension stands for the largest in the
  // batch. Empty: all dimensions are unknown.
  std::vector<Shape> padded_shapes = {};
  // The padding value of each component, a scalar of the component's dtype. Empty: zeros.
  std::vector<Tensor> padding_values = {};

  // Returns whether a batch's shapes are independent of its rows.
  bool has_fixed_shapes() const {
    return !padded_shapes.empty() &&
           std::all_of(padded_shapes.begin(), padded_shapes.end(),
                       [](const Shape& shape) { return shape.IsFullyDefined(); });
  }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_PADDING_H_
