// SPDX-License-Identifier: Apache-2.0
//
// Layers that rearrange or repeat the elements of each example.
#ifndef MIRRORFLOW_TRAIN_LAYERS_RESHAPING_H_
#define MIRRORFLOW_TRAIN_LAYERS_RESHAPING_H_

#include <cstdint>

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow {
namespace layers {

// Flatten: [batch, …] -> [batch, product of the rest].
Output Flatten(const Scope& scope, Output x);

// Reshape: [batch, …] -> [batch, target_shape…], of which one dimension may be -1: it follows from
//          the number of elements.
// Errors:   InvalidArgument if a dimension of x other than the batch is not known, or if the
//           numbers of elements differ.
Output Reshape(const Scope& scope, Output x, const Shape& target_shape);

// Permute: dimension i of the result is dimension dims[i - 1] of x, where dimensions after the
//          batch are counted from 1. Permute(s, x, {2, 1}) swaps the dimensions of sequences.
// Errors:   InvalidArgument unless `dims` is a permutation of 1, …, rank - 1.
Output Permute(const Scope& scope, Output x, absl::Span<const int64_t> dims);

// RepeatVector: [batch, width] -> [batch, n, width].
Output RepeatVector(const Scope& scope, Output x, int64_t n);

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_RESHAPING_H_
