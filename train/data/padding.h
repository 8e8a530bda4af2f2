// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_DATA_PADDING_H_
#define MIRRORFLOW_TRAIN_DATA_PADDING_H_

#include <algorithm>
#include <vector>

#include "framework/core/shape.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// How Dataset::PaddedBatch makes a batch from rows of different shapes: it appends padding values
// to each dimension of a row until the row has the padded shape. A row that is larger than the
// padded shape is an error.
struct Padding {
  // The padded row shape of each component. An unknown dimension (-1) stands for the largest size
  // in the batch. If empty, all dimensions are unknown.
  std::vector<Shape> padded_shapes = {};
  // The padding value of each component, a scalar of the component's dtype. If empty, zeros.
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
