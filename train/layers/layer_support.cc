// SPDX-License-Identifier: Apache-2.0
#include "train/layers/layer_support.h"

#include "ops/cast.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/shape_ops.h"
#include "ops/strided_slice.h"

namespace mirrorflow {
namespace layers {

std::optional<int64_t> InputDepth(const Scope& scope, Output x, int rank, absl::string_view layer) {
  const Shape& shape = scope.shape(x);
  if (EndsKnown(scope, x, rank, 1) && shape.rank() == rank) return shape.dim(rank - 1);
  Fail(scope, layer, ": expected an input of rank ", rank,
       " with a known last dimension, got shape ", shape.ToString());
  return std::nullopt;
}

std::optional<int64_t> InputDepth(const Scope& scope, Output x, absl::string_view layer) {
  const Shape& shape = scope.shape(x);
  if (EndsKnown(scope, x, 1, 1)) return shape.dim(shape.rank() - 1);
  Fail(scope, layer, ": expected an input with a known last dimension, got shape ",
       shape.ToString());
  return std::nullopt;
}

std::optional<int64_t> GroupDepth(const Scope& scope, Output x, int rank, int64_t groups,
                                  absl::string_view layer) {
  if (!CheckSize(scope, layer, "groups", groups)) return std::nullopt;
  const std::optional<int64_t> in = InputDepth(scope, x, rank, layer);
  if (!in) return std::nullopt;
  if (*in % groups == 0) return *in / groups;
  Fail(scope, layer, ": expected channels divisible by ", groups, " groups, got shape ",
       scope.shape(x).ToString());
  return std::nullopt;
}

bool CheckSize(const Scope& scope, absl::string_view layer, absl::string_view what, int64_t value) {
  if (value >= 1) return true;
  Fail(scope, layer, ": ", what, " out of range; expected at least 1, got ", value);
  return false;
}

bool CheckSize(const Scope& scope, absl::string_view layer, absl::string_view what, Size2D value) {
  return CheckSize(scope, layer, what, value.height) && CheckSize(scope, layer, what, value.width);
}

bool CheckRank(const Scope& scope, Output x, int rank, absl::string_view layer) {
  const Shape& shape = scope.shape(x);
  if (!shape.unknown_rank() && shape.rank() == rank) return true;
  Fail(scope, layer, ": expected an input of rank ", rank, ", got shape ", shape.ToString());
  return false;
}

bool EndsKnown(const Scope& scope, Output x, int rank, int known) {
  const Shape& shape = scope.shape(x);
  if (shape.unknown_rank() || shape.rank() < rank) return false;
  for (int d = shape.rank() - known; d < shape.rank(); ++d) {
    if (shape.dim(d) == kUnknownDim) return false;
  }
  return true;
}

bool CheckExamples(const Scope& scope, Output x, int rank, absl::string_view layer) {
  const Shape& shape = scope.shape(x);
  if (EndsKnown(scope, x, rank, rank - 1) && shape.rank() == rank) return true;
  Fail(scope, layer, ": expected an input of rank ", rank,
       " with known dimensions after the first, got shape ", shape.ToString());
  return false;
}

Output UnlessEmpty(const Scope& scope, Output x, Output y, Size2D window, Size2D dilation) {
  if (!y.valid() || scope.shape(y).rank() != 4) return y;
  const int64_t reach[] = {(window.height - 1) * dilation.height + 1,
                           (window.width - 1) * dilation.width + 1};
  for (int i = 0; i < 2; ++i) {
    if (scope.shape(y).dim(1 + i) != 0) continue;
    return Fail(scope, y.node->op().name, "(", y.node->name(),
                "): the window is larger than the image; expected at most ",
                scope.shape(x).dim(1 + i), ", got ", reach[i]);
  }
  return y;
}

Output BatchShape(const Scope& scope, Output x, absl::Span<const int64_t> rest) {
  const Shape& shape = scope.shape(x);
  if (!shape.unknown_rank() && shape.rank() > 0 && shape.dim(0) != kUnknownDim) {
    std::vector<int64_t> dims = {shape.dim(0)};
    dims.insert(dims.end(), rest.begin(), rest.end());
    return ops::VectorConst(scope, dims);
  }
  std::vector<Output> dims = {ops::ElementOf(scope, ops::Shape(scope, x), 0)};
  for (const int64_t dim : rest) {
    dims.push_back(ops::ScalarConst(scope, DT_INT32, static_cast<double>(dim)));
  }
  return ops::Pack(scope, dims);
}

Output FloatConst(const Scope& scope, const Shape& shape, absl::Span<const float> values,
                  DataType dtype) {
  const Output floats = ops::Const(scope, Tensor::Of<float>(shape, values));
  return dtype == DT_FLOAT ? floats : ops::Cast(scope, floats, dtype);
}

std::vector<int64_t> OfImages(Size2D size) { return {1, size.height, size.width, 1}; }

}  // namespace layers
}  // namespace mirrorflow
