// SPDX-License-Identifier: Apache-2.0
#include "train/layers/reshaping.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/constant.h"
#include "ops/reshape.h"
#include "ops/tile.h"
#include "ops/transpose.h"
#include "train/layers/layer_support.h"

namespace mirrorflow {
namespace layers {
namespace {

// The number of elements of an example; unknown if a dimension is.
int64_t ElementsOf(const Shape& shape, int first_dim) {
  int64_t size = 1;
  for (int d = first_dim; d < shape.rank(); ++d) {
    if (shape.dim(d) == kUnknownDim) return kUnknownDim;
    size *= shape.dim(d);
  }
  return size;
}

}  // namespace

Output Flatten(const Scope& scope, Output x) {
  if (!scope.ok()) return Output();
  const Shape& shape = scope.shape(x);
  const bool known = !shape.unknown_rank() && shape.rank() >= 1;
  const int64_t size = known ? ElementsOf(shape, 1) : kUnknownDim;
  if (size == kUnknownDim) {
    return Fail(scope, absl::StrCat("flatten: expected an input whose dimensions after the first ",
                                    "are known, got shape ", shape.ToString()));
  }
  return ops::Reshape(scope, x, Shape({kUnknownDim, size}));
}

Output Reshape(const Scope& scope, Output x, const Shape& target_shape) {
  if (!scope.ok()) return Output();
  const Shape& shape = scope.shape(x);
  const bool known = !shape.unknown_rank() && shape.rank() >= 1;
  const int64_t size = known ? ElementsOf(shape, 1) : kUnknownDim;
  if (size == kUnknownDim) {
    return Fail(scope, absl::StrCat("reshape: expected an input whose dimensions after the first ",
                                    "are known, got shape ", shape.ToString()));
  }
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
  const bool fits = unknown == 0 ? others == size : others > 0 && size % others == 0;
  if (unknown > 1 || !fits) {
    return Fail(scope, absl::StrCat("reshape: target shape ", target_shape.ToString(),
                                    " does not fit the examples of shape ", shape.ToString()));
  }
  if (unknown == 1) std::replace(dims.begin() + 1, dims.end(), kUnknownDim, size / others);
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
    return Fail(scope,
                absl::StrCat("permute: expected a permutation of the dimensions from 1 of ",
                             "shape ", shape.ToString(), ", got (", absl::StrJoin(dims, ","), ")"));
  }
  return ops::Transpose(scope, x, perm);
}

Output RepeatVector(const Scope& scope, Output x, int64_t n) {
  if (!scope.ok() || !CheckSize(scope, "repeat_vector", "n", n)) return Output();
  if (scope.shape(x).unknown_rank() || scope.shape(x).rank() != 2) {
    return Fail(scope, absl::StrCat("repeat_vector: expected an input of rank 2, got shape ",
                                    scope.shape(x).ToString()));
  }
  return ops::Tile(scope, ops::ExpandDims(scope, x, 1), ops::VectorConst(scope, {1, n, 1}));
}

}  // namespace layers
}  // namespace mirrorflow
