// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_DATA_PADDING_H_
#define MIRRORFLOW_TRAIN_DATA_PADDING_H_

#include <vector>

#include "framework/core/shape.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// How rows of different shapes fit in one batch: each is padded at the end of its dimensions.
struct Padding {
  // The shape of the rows of each component. An unknown dimension is that of the longest row of the
  // batch. Empty: all dimensions are unknown.
  std::vector<Shape> padded_shapes = {};
  // A scalar of its dtype for each component. Empty: zeros.
  std::vector<Tensor> padding_values = {};
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_PADDING_H_
