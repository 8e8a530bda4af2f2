// SPDX-License-Identifier: Apache-2.0
#include "train/layers/pooling.h"

#include <vector>

#include "ops/avg_pool.h"
#include "ops/max_pool.h"
#include "ops/reduction.h"
#include "ops/reshape.h"
#include "train/layers/layer_support.h"

namespace mirrorflow {
namespace layers {
namespace {

// A function that pools the pixels in each window of images.
using Pool = Output (*)(const Scope&, Output x, Size2D size, Size2D strides,
                        absl::string_view padding);

Output MaxOfWindows(const Scope& s, Output x, Size2D size, Size2D strides,
                    absl::string_view padding) {
  return UnlessEmpty(s, x, ops::MaxPool(s, x, OfImages(size), OfImages(strides), padding), size);
}

Output MeanOfWindows(const Scope& s, Output x, Size2D size, Size2D strides,
                     absl::string_view padding) {
  return UnlessEmpty(s, x, ops::AvgPool(s, x, OfImages(size), OfImages(strides), padding), size);
}

int64_t StrideOf(int64_t stride, int64_t size) { return stride != 0 ? stride : size; }

// Pools sequences as images of height 1.
Output Pool1D(const Scope& s, Output x, int64_t size, const Pooling1DOptions& options,
              const char* layer, Pool pool) {
  if (!s.ok() || !CheckRank(s, x, 3, layer)) return Output();
  const Output y = pool(s, ops::ExpandDims(s, x, 1), {1, size},
                        {1, StrideOf(options.strides, size)}, options.padding);
  return ops::Squeeze(s, y, {.axis = {1}});
}

Output Pool2D(const Scope& s, Output x, Size2D size, const Pooling2DOptions& options, Pool pool) {
  const Size2D strides{StrideOf(options.strides.height, size.height),
                       StrideOf(options.strides.width, size.width)};
  return pool(s, x, size, strides, options.padding);
}

// Pools the height and width of every slice, then the depth. This is exact for maxima, and also for
// means: all slices average over the same number of elements.
Output Pool3D(const Scope& s, Output x, Size3D size, const Pooling3DOptions& options,
              const char* layer, Pool pool) {
  if (!s.ok() || !CheckExamples(s, x, 5, layer)) return Output();
  const Shape shape = s.shape(x);
  const int64_t depth = shape.dim(1), channels = shape.dim(4);
  const Output slices =
      ops::Reshape(s, x, Shape({kUnknownDim, shape.dim(2), shape.dim(3), channels}));
  const Output pooled = Pool2D(
      s, slices, {size.height, size.width},
      {.strides = {options.strides.height, options.strides.width}, .padding = options.padding},
      pool);
  if (!pooled.valid()) return Output();
  const int64_t height = s.shape(pooled).dim(1), width = s.shape(pooled).dim(2);
  const Output columns =
      ops::Reshape(s, pooled, Shape({kUnknownDim, depth, height * width, channels}));
  const Output y =
      Pool2D(s, columns, {size.depth, 1},
             {.strides = {options.strides.depth, 1}, .padding = options.padding}, pool);
  if (!y.valid()) return Output();
  return ops::Reshape(s, y, Shape({kUnknownDim, s.shape(y).dim(1), height, width, channels}));
}

using Reduce = Output (*)(const Scope&, Output, const ops::ReductionAxes&,
                          const ops::ReductionOptions&);

Output PoolAll(const Scope& s, Output x, int rank, const GlobalPoolingOptions& options,
               const char* layer, Reduce reduce) {
  if (!s.ok() || !CheckRank(s, x, rank, layer)) return Output();
  std::vector<int64_t> axes;
  for (int d = 1; d < rank - 1; ++d) axes.push_back(d);
  return reduce(s, x, axes, {.keep_dims = options.keepdims});
}

}  // namespace

Output MaxPooling1D(const Scope& scope, Output x, int64_t pool_size,
                    const Pooling1DOptions& options) {
  return Pool1D(scope, x, pool_size, options, "max_pooling1d", MaxOfWindows);
}
Output MaxPooling2D(const Scope& scope, Output x, Size2D pool_size,
                    const Pooling2DOptions& options) {
  return Pool2D(scope, x, pool_size, options, MaxOfWindows);
}
Output MaxPooling3D(const Scope& scope, Output x, Size3D pool_size,
                    const Pooling3DOptions& options) {
  return Pool3D(scope, x, pool_size, options, "max_pooling3d", MaxOfWindows);
}
Output AveragePooling1D(const Scope& scope, Output x, int64_t pool_size,
                        const Pooling1DOptions& options) {
  return Pool1D(scope, x, pool_size, options, "average_pooling1d", MeanOfWindows);
}
Output AveragePooling2D(const Scope& scope, Output x, Size2D pool_size,
                        const Pooling2DOptions& options) {
  return Pool2D(scope, x, pool_size, options, MeanOfWindows);
}
Output AveragePooling3D(const Scope& scope, Output x, Size3D pool_size,
                        const Pooling3DOptions& options) {
  return Pool3D(scope, x, pool_size, options, "average_pooling3d", MeanOfWindows);
}

Output GlobalMaxPooling1D(const Scope& scope, Output x, const GlobalPoolingOptions& options) {
  return PoolAll(scope, x, 3, options, "global_max_pooling1d", ops::Max);
}
Output GlobalMaxPooling2D(const Scope& scope, Output x, const GlobalPoolingOptions& options) {
  return PoolAll(scope, x, 4, options, "global_max_pooling2d", ops::Max);
}
Output GlobalMaxPooling3D(const Scope& scope, Output x, const GlobalPoolingOptions& options) {
  return PoolAll(scope, x, 5, options, "global_max_pooling3d", ops::Max);
}
Output GlobalAveragePooling1D(const Scope& scope, Output x, const GlobalPoolingOptions& options) {
  return PoolAll(scope, x, 3, options, "global_average_pooling1d", ops::Mean);
}
Output GlobalAveragePooling2D(const Scope& scope, Output x, const GlobalPoolingOptions& options) {
  return PoolAll(scope, x, 4, options, "global_average_pooling2d", ops::Mean);
}
Output GlobalAveragePooling3D(const Scope& scope, Output x, const GlobalPoolingOptions& options) {
  return PoolAll(scope, x, 5, options, "global_average_pooling3d", ops::Mean);
}

}  // namespace layers
}  // namespace mirrorflow
