// SPDX-License-Identifier: Apache-2.0
#include "train/layers/up_sampling.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/reshape.h"
#include "ops/tile.h"
#include "train/layers/layer_support.h"

namespace mirrorflow {
namespace layers {
namespace {

// The matrix [n, n * factor] whose column i has the weights of the two nearest of n elements.
Output BilinearWeights(const Scope& s, int64_t n, int64_t factor, DataType dtype) {
  const int64_t columns = n * factor;
  std::vector<float> weights(n * columns, 0.0f);
  for (int64_t i = 0; i < columns; ++i) {
    const double center = (static_cast<double>(i) + 0.5) / static_cast<double>(factor) - 0.5;
    const double position = std::clamp(center, 0.0, static_cast<double>(n - 1));
    const auto below = static_cast<int64_t>(position);
    const int64_t above = std::min(below + 1, n - 1);
    const double part = position - static_cast<double>(below);
    weights[below * columns + i] += static_cast<float>(1 - part);
    weights[above * columns + i] += static_cast<float>(part);
  }
  const Output matrix = ops::Const(s, Tensor::Of<float>({n, columns}, weights));
  return dtype == DT_FLOAT ? matrix : ops::Cast(s, matrix, dtype);
}

}  // namespace

Output UpSampling1D(const Scope& scope, Output x, int64_t size) {
  const Scope s = scope.SubScope("up_sampling1d");
  if (!s.ok() || !CheckSize(s, "up_sampling1d", "size", size) ||
      !CheckExamples(s, x, 3, "up_sampling1d")) {
    return Output();
  }
  const int64_t n = s.shape(x).dim(1), channels = s.shape(x).dim(2);
  const Output repeated =
      ops::Tile(s, ops::ExpandDims(s, x, 2), ops::VectorConst(s, {1, 1, size, 1}));
  return ops::Reshape(s, repeated, Shape({kUnknownDim, n * size, channels}));
}

Output UpSampling2D(const Scope& scope, Output x, Size2D size, const UpSampling2DOptions& options) {
  const Scope s = scope.SubScope("up_sampling2d");
  if (!s.ok() || !CheckSize(s, "up_sampling2d", "size", size.height) ||
      !CheckSize(s, "up_sampling2d", "size", size.width) ||
      !CheckExamples(s, x, 4, "up_sampling2d")) {
    return Output();
  }
  const int64_t h = s.shape(x).dim(1), w = s.shape(x).dim(2), channels = s.shape(x).dim(3);
  if (options.interpolation == "bilinear") {
    const Output high =
        ops::Einsum(s, {x, BilinearWeights(s, h, size.height, x.dtype())}, "nhwc,hy->nywc");
    return ops::Einsum(s, {high, BilinearWeights(s, w, size.width, x.dtype())}, "nywc,wx->nyxc");
  }
  if (options.interpolation != "nearest") {
    return Fail(s, absl::StrCat("up_sampling2d: interpolation must be nearest or bilinear, got ",
                                options.interpolation));
  }
  const Output spread = ops::Reshape(s, x, Shape({kUnknownDim, h, 1, w, 1, channels}));
  const Output repeated =
      ops::Tile(s, spread, ops::VectorConst(s, {1, 1, size.height, 1, size.width, 1}));
  return ops::Reshape(s, repeated, Shape({kUnknownDim, h * size.height, w * size.width, channels}));
}

}  // namespace layers
}  // namespace mirrorflow
