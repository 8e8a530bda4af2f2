// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_TRANSPOSE_H_
#define MIRRORFLOW_OPS_TRANSPOSE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr char kTranspose[] = "Transpose";  // for passes that match this op

// Transpose: y[i[perm[0]], i[perm[1]], …] = x[i[0], i[1], …].
// Shapes:   perm [R] is a permutation of 0 to R-1 that must be known when the step is compiled.
// Errors:   InvalidArgument if perm is not such a permutation.
// Gradient: dy transposed by the inverse permutation.
Output Transpose(const Scope& scope, Output x, Output perm);
Output Transpose(const Scope& scope, Output x, absl::Span<const int64_t> perm);

// InvertPermutation: y[x[i]] = i, for an integer vector x.
// Errors:   InvalidArgument if x is not a permutation.
// Gradient: none.
Output InvertPermutation(const Scope& scope, Output x);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_TRANSPOSE_H_
