// SPDX-License-Identifier: Apache-2.0
//
// Reduces the contributions of ranks that are in one address space.
//
// Deterministic: element i is ((in[0][i] op in[1][i]) op in[2][i]) …, always in rank order, so the
// bits depend neither on timing nor on how threads divide the elements.
//   sum    integers wrap
//   mean   sum * (1 / ranks) for floats, sum / ranks (towards zero) for integers
//   max, min   NaN if any contribution is NaN
//   all, any   only for bool, which has no other reduction
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_REDUCE_IN_RANK_ORDER_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_REDUCE_IN_RANK_ORDER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "framework/core/dtype.h"
#include "framework/graph/sharding.h"

namespace mirrorflow {

// Returns whether ReduceInRankOrder supports `reduction` for `dtype`.
bool CanReduce(Reduction reduction, DataType dtype);

// Reduces in[0] … in[ranks-1], `count` elements each, and writes the result to each `out` (at least
// one). An `out` may be the same memory as an `in`, but must not overlap it partially.
// REQUIRES: CanReduce(reduction, dtype).
void ReduceInRankOrder(Reduction reduction, DataType dtype, absl::Span<const void* const> in,
                       absl::Span<void* const> out, int64_t count);

// Returns the reduction to use within a memory domain. The results of the domains are reduced
// again, so a mean stays a sum until it covers all ranks.
inline Reduction WithinDomain(Reduction reduction) {
  return reduction == Reduction::kMean ? Reduction::kSum : reduction;
}

// Divides sums over `ranks` ranks in place, to turn them into means.
// REQUIRES: CanReduce(Reduction::kMean, dtype).
void DivideSums(DataType dtype, void* sums, int64_t count, int64_t ranks);

// Convert sums between float32 and bfloat16, which ranks can exchange instead. Narrowing rounds to
// nearest, ties to even. The bfloat16 values take 2 * `count` bytes.
void NarrowToBFloat16(const float* from, int64_t count, void* to);
void WidenBFloat16(const void* from, int64_t count, float* to);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_REDUCE_IN_RANK_ORDER_H_
