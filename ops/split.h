// SPDX-License-Identifier: Apache-2.0
//
// Split and SplitV: divide a tensor into pieces along one dimension.
#ifndef MIRRORFLOW_OPS_SPLIT_H_
#define MIRRORFLOW_OPS_SPLIT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// Split: `num_split` pieces of equal size along dimension `axis`, which is in [-R, R), where R is
// the rank.
// Errors:   InvalidArgument if the axis is out of range, or if the dimension is not divisible by
//           `num_split`.
// Sharding: gathered along `axis`, kept along all other dimensions.
// Gradient: the concatenation of dy.
std::vector<Output> Split(const Scope& scope, Output value, int64_t num_split, int64_t axis);

// SplitV: pieces of the given sizes. One size may be -1, which means the remainder.
// Errors:   InvalidArgument if the sizes do not add up to the dimension.
// Gradient: the concatenation of dy.
std::vector<Output> SplitV(const Scope& scope, Output value, absl::Span<const int64_t> size_splits,
                           int64_t axis);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_SPLIT_H_
