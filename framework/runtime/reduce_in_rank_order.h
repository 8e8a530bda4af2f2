// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of reductions between ranks whose contributions are in one address space.
//
// Determinism: element i is ((in[0][i] op in[1][i]) op in[2][i]) …, always in rank order, so the
// bits depend neither on timing nor on how the elements are divided between threads.
//   sum    integers wrap
//   mean   sum * (1 / ranks) for floats, sum / ranks (towards zero) for integers
//   max, min   NaN if any contribution is NaN
//   all, any   of bool only; bool has no other reduction
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_REDUCE_IN_RANK_ORDER_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_REDUCE_IN_RANK_ORDER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "framework/core/dtype.h"
#include "framework/graph/sharding.h"

namespace mirrorflow {

// Whether ReduceInRankOrder supports `reduction` of `dtype`.
bool CanReduce(Reduction reduction, DataType dtype);

// Writes the reduction of in[0] … in[ranks-1], `count` elements each, to each of `out` (at least
// one). An `out` may be the same memory as an `in`, but must not overlap it otherwise.
// REQUIRES: CanReduce(reduction, dtype).
void ReduceInRankOrder(Reduction reduction, DataType dtype, absl::Span<const void* const> in,
                       absl::Span<void* const> out, int64_t count);

// The reduction to use for a part of the ranks, whose results are reduced again: a mean stays a sum
// until it covers all ranks.
inline Reduction WithinDomain(Reduction reduction) {
  return reduction == Reduction::kMean ? Reduction::kSum : reduction;
}

// Divides sums over `ranks` ranks in place, which makes them means.
// REQUIRES: CanReduce(Reduction::kMean, dtype).
void DivideSums(DataType dtype, void* sums, int64_t count, int64_t ranks);

// Convert sums between float32 and bfloat16, in which they may travel between ranks. Narrowing
// rounds to nearest, ties to even. The bfloat16 values take 2 `count` bytes.
void NarrowToBFloat16(const float* from, int64_t count, void* to);
void WidenBFloat16(const void* from, int64_t count, float* to);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_REDUCE_IN_RANK_ORDER_H_
