// SPDX-License-Identifier: Apache-2.0
//
// Ops that join tensors, and Unpack, the inverse of Pack.
#ifndef MIRRORFLOW_OPS_CONCAT_H_
#define MIRRORFLOW_OPS_CONCAT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// ConcatV2: two or more tensors, concatenated along dimension `axis`, a scalar that must be known
// when the step is compiled; a negative one counts from the end.
// Errors:   InvalidArgument if the axis is out of range, or if the ranks, or the sizes of
//           dimensions other than `axis`, differ.
// Gradient: the slices of dy.
Output ConcatV2(const Scope& scope, absl::Span<const Output> values, Output axis);
Output ConcatV2(const Scope& scope, absl::Span<const Output> values, int64_t axis);

// Concat: an older form of ConcatV2, with the axis as the first input.
Output Concat(const Scope& scope, Output concat_dim, absl::Span<const Output> values);

// ConcatOffset: for tensors of the given shapes, concatenated along dimension `concat_dim`, the
// offset of each of them, as a vector with one element per dimension. No gradient.
std::vector<Output> ConcatOffset(const Scope& scope, Output concat_dim,
                                 absl::Span<const Output> shapes);

struct PackOptions {
  int64_t axis = 0;
};

// Pack: tensors of equal shape, of rank R, stacked along a new dimension `axis` in [-1-R, R], like
// tf.stack.
// Errors:   InvalidArgument if the shapes differ or the axis is out of range.
// Gradient: Unpack.
Output Pack(const Scope& scope, absl::Span<const Output> values, const PackOptions& options = {});

struct UnpackOptions {
  int64_t axis = 0;
};

// Unpack: the `num` slices along dimension `axis`, without that dimension, like tf.unstack.
// Errors:   InvalidArgument if the size of the dimension is not `num`.
// Gradient: Pack.
std::vector<Output> Unpack(const Scope& scope, Output value, int64_t num,
                           const UnpackOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_CONCAT_H_
