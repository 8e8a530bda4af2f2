// SPDX-License-Identifier: Apache-2.0
#include "train/layers/reshaping.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_join.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/reshape.h"
#include "ops/slice.h"
#include "ops/strided_slice.h"
#include "ops/tile.h"
#include "ops/transpose.h"
#include "train/layers/layer_support.h"

namespace mirrorflow {
namespace layers {
namespace {

// Returns the element count of an example. Fails the scope if a dimension other than the batch is
// unknown.
std::optional<int64_t> ElementsPerExample(const Scope& s, Output x, const char* layer) {
  const Shape& shape = s.shape(x);
  if (EndsKnown(s, x, 1, shape.rank() - 1)) return shape.num_elements_from(1);
  Fail(s, layer, ": expected an input with known dimensions after the first, got shape ",
       shape.ToString());
  return std::nullopt;
}

// Returns whether x has one dimension per border between the batch and the channels, and no border
// is negative. If not, fails the scope.
bool CheckBorders(const Scope& s, Output x, absl::Span<const Border> borders, const char* layer) {
  if (!s.ok()) return false;
  if (!CheckRank(s, x, static_cast<int>(borders.size()) + 2, layer)) return false;
  for (const Border& border : borders) {
    if (border.before >= 0 && border.after >= 0) continue;
    Fail(s, layer, ": expected element counts of at least 0, got ", border.before, " and ",
         border.after);
    return false;
  }
  return true;
}

Output Padded(const Scope& s, Output x, std::vector<Border> borders, const char* layer) {
  if (!CheckBorders(s, x, borders, layer)) return Output();
  std::vector<int64_t> paddings = {0, 0};
  for (const Border& border : borders) {
    paddings.push_back(border.before);
    paddings.push_back(border.after);
  }
  paddings.resize(paddings.size() + 2, 0);
  const auto rank = static_cast<int64_t>(paddings.size()) / 2;
  return ops::Pad(s, x, ops::Reshape(s, ops::VectorConst(s, paddings), Shape({rank, 2})));
}

Output Cropped(const Scope& s, Output x, std::vector<Border> borders, const char* layer) {
  if (!CheckBorders(s, x, borders, layer)) return Output();
  const Shape& shape = s.shape(x);
  std::vector<int64_t> begin = {0}, end = {0};
  int64_t end_mask = 1;
  for (size_t i = 0; i < borders.size(); ++i) {
    const auto d = static_cast<int>(i) + 1;
    const int64_t cropped = borders[i].before + borders[i].after;
    if (shape.dim(d) != kUnknownDim && shape.dim(d) <= cropped) {
      return Fail(s, layer, ": cropping would remove all elements; expected fewer than ",
                  shape.dim(d), ", got ", cropped, " for shape ", shape.ToString());
    }
    begin.push_back(borders[i].before);
    end.push_back(-borders[i].after);
    if (borders[i].after == 0) end_mask |= int64_t{1} << d;
  }
  return ops::StridedSlice(s, x, ops::VectorConst(s, begin), ops::VectorConst(s, end),
                           ops::VectorConst(s, std::vector<int64_t>(begin.size(), 1)),
                           {.begin_mask = 1, .end_mask = end_mask});
}

// Returns a matrix [n, n * factor]. Column i holds the weights of the two elements nearest to
// result element i.
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
  return FloatConst(s, {n, columns}, weights, dtype);
}

}  // namespace

Output Flatten(const Scope& scope, Output x) {
  if (!scope.ok()) return Output();
  const std::optional<int64_t> size = ElementsPerExample(scope, x, "flatten");
  return size ? ops::Reshape(scope, x, Shape({kUnknownDim, *size})) : Output();
}

Output Reshape(const Scope& scope, Output x, const Shape& target_shape) {
  if (!scope.ok()) return Output();
  const std::optional<int64_t> size = ElementsPerExample(scope, x, "reshape");
  if (!size) return Output();
  int64_t others = 1;
  int unknown = 0;
  std::vector<int64_t> dims = {kUnknownDim};
  for (const int64_t dim : target_shape.dims()) {
    dims.push_back(dim);
    if (dim == kUnknownDim) {
      ++unknown;
    } else {
      others *= dim;
    }
  }
  const bool fits = unknown == 0 ? others == *size : others > 0 && *size % others == 0;
  if (unknown > 1 || !fits) {
    return Fail(scope, "reshape: target shape ", target_shape.ToString(),
                " does not fit the examples in shape ", scope.shape(x).ToString());
  }
  if (unknown == 1) std::replace(dims.begin() + 1, dims.end(), kUnknownDim, *size / others);
  return ops::Reshape(scope, x, Shape(dims));
}

Output Permute(const Scope& scope, Output x, absl::Span<const int64_t> dims) {
  if (!scope.ok()) return Output();
  const Shape& shape = scope.shape(x);
  std::vector<int64_t> perm = {0};
  perm.insert(perm.end(), dims.begin(), dims.end());
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool valid = !shape.unknown_rank() && shape.rank() == static_cast<int>(perm.size());
  for (size_t i = 0; i < sorted.size(); ++i) valid &= sorted[i] == static_cast<int64_t>(i);
  if (!valid) {
    return Fail(scope, "permute: expected a permutation of dimensions 1 and up of shape ",
                shape.ToString(), ", got (", absl::StrJoin(dims, ","), ")");
  }
  return ops::Transpose(scope, x, perm);
}

Output RepeatVector(const Scope& scope, Output x, int64_t n) {
  if (!scope.ok() || !CheckSize(scope, "repeat_vector", "n", n)) return Output();
  if (!CheckRank(scope, x, 2, "repeat_vector")) return Output();
  return ops::Tile(scope, ops::ExpandDims(scope, x, 1), ops::VectorConst(scope, {1, n, 1}));
}

Output ZeroPadding1D(const Scope& scope, Output x, Border padding) {
  return Padded(scope, x, {padding}, "zero_padding1d");
}
Output ZeroPadding2D(const Scope& scope, Output x, Border2D padding) {
  return Padded(scope, x, {padding.height, padding.width}, "zero_padding2d");
}

Output Cropping1D(const Scope& scope, Output x, Border cropping) {
  return Cropped(scope, x, {cropping}, "cropping1d");
}
Output Cropping2D(const Scope& scope, Output x, Border2D cropping) {
  return Cropped(scope, x, {cropping.height, cropping.width}, "cropping2d");
}

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
  if (!s.ok() || !CheckSize(s, "up_sampling2d", "size", size) ||
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
    return Fail(s, "up_sampling2d: unknown interpolation; expected nearest or bilinear, got ",
                options.interpolation);
  }
  const Output spread = ops::Reshape(s, x, Shape({kUnknownDim, h, 1, w, 1, channels}));
  const Output repeated =
      ops::Tile(s, spread, ops::VectorConst(s, {1, 1, size.height, 1, size.width, 1}));
  return ops::Reshape(s, repeated, Shape({kUnknownDim, h * size.height, w * size.width, channels}));
}

}  // namespace layers
}  // namespace mirrorflow
