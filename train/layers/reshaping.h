// SPDX-License-Identifier: Apache-2.0
//
// Layers that rearrange, repeat, add or remove elements within each example. Sequences are [batch,
// n, channels], images [batch, height, width, channels].
#ifndef MIRRORFLOW_TRAIN_LAYERS_RESHAPING_H_
#define MIRRORFLOW_TRAIN_LAYERS_RESHAPING_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "train/layers/sizes.h"

namespace mirrorflow {
namespace layers {

// Flatten: [batch, …] -> [batch, product of the other dimensions].
// Errors:   InvalidArgument if a dimension of x other than the batch is unknown.
Output Flatten(const Scope& scope, Output x);

// Reshape: [batch, …] -> [batch, target_shape…]. One dimension of target_shape can be -1; its size
//          then follows from the element count of an example: Reshape(s, x, {28, -1, 1}).
// Errors:   InvalidArgument if a dimension of x other than the batch is unknown, if target_shape
//           has more than one -1, or if the element counts differ.
Output Reshape(const Scope& scope, Output x, const Shape& target_shape);

// Permute: dimension i of the result is dimension dims[i - 1] of x. The batch is dimension 0 and
//          does not move: Permute(s, x, {2, 1}) swaps the other two dimensions of sequences.
// Errors:   InvalidArgument unless `dims` is a permutation of 1, …, rank - 1, where `rank` is that
//           of x.
Output Permute(const Scope& scope, Output x, absl::Span<const int64_t> dims);

// RepeatVector: repeats each vector n times: [batch, width] -> [batch, n, width].
// Errors:   InvalidArgument if n is less than 1, or if x is not a matrix.
Output RepeatVector(const Scope& scope, Output x, int64_t n);

// ZeroPadding1D, ZeroPadding2D: adds `padding` zeros at both ends of each dimension between the
// batch and the channels. Border and Border2D (sizes.h) also take a number for each end:
// ZeroPadding1D(s, x, {2, 0}).
// Errors:   InvalidArgument if a number is negative, or if x has a different rank.
Output ZeroPadding1D(const Scope& scope, Output x, Border padding = 1);
Output ZeroPadding2D(const Scope& scope, Output x, Border2D padding = 1);

// Cropping1D, Cropping2D: removes `cropping` elements at both ends of each dimension between the
// batch and the channels. Cropping2D's default of 0 removes nothing.
// Errors:   InvalidArgument if a number is negative, if x has a different rank, or if no element
//           would remain.
Output Cropping1D(const Scope& scope, Output x, Border cropping = 1);
Output Cropping2D(const Scope& scope, Output x, Border2D cropping = 0);

// UpSampling1D: repeats each element of a sequence `size` times.
// Shapes:   [batch, n, channels] -> [batch, n * size, channels].
// Errors:   InvalidArgument if n or the number of channels is unknown, or if `size` is less than 1.
Output UpSampling1D(const Scope& scope, Output x, int64_t size = 2);

struct UpSampling2DOptions {
  std::string interpolation = "nearest";  // repeats pixels; or "bilinear"
};

// UpSampling2D: enlarges images by the integer factors size.height and size.width. Bilinear
//                interpolation aligns pixel centers and repeats the border beyond the outermost
//                centers.
// Shapes:   [batch, h, w, channels] -> [batch, h * size.height, w * size.width, channels].
// Errors:   InvalidArgument if a dimension other than the batch is unknown, if a factor is less
//           than 1, or for any other interpolation.
Output UpSampling2D(const Scope& scope, Output x, Size2D size = 2,
                    const UpSampling2DOptions& options = {});

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_RESHAPING_H_
