// SPDX-License-Identifier: Apache-2.0
//
// Ops that select rows by indices that need not be known when the step is compiled, and
// UnsortedSegmentSum, the gradient of GatherV2.
#ifndef MIRRORFLOW_OPS_GATHER_H_
#define MIRRORFLOW_OPS_GATHER_H_

#include <cstdint>

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr char kGatherV2[] = "GatherV2";

struct GatherV2Options {
  int64_t batch_dims = 0;  // a negative value counts from the rank of the indices
};

// GatherV2: y[a…, i…, b…] = params[a…, indices[i…], b…], where a… has `axis` dimensions.
// Shapes:   axis is a scalar that must be known when the step is compiled. The first batch_dims
//           dimensions of params and of indices are the same; each combination of their indices is
//           a separate gather.
// Errors:   InvalidArgument at run time if an index is outside [0, size of dimension `axis`).
// Gradient: d params = UnsortedSegmentSum of dy.
Output GatherV2(const Scope& scope, Output params, Output indices, Output axis,
                const GatherV2Options& options = {});

inline constexpr char kResourceGather[] = "ResourceGather";

struct ResourceGatherOptions {
  int64_t batch_dims = 0;  // must not be negative
};

// ResourceGather: GatherV2 on the variable that a handle refers to, along the first dimension after
// the batch dimensions. The compiler replaces it with a read and a GatherV2.
// Gradient: for the variable, UnsortedSegmentSum of dy, a dense tensor.
Output ResourceGather(const Scope& scope, Output resource, Output indices,
                      const ResourceGatherOptions& options = {});

// UnsortedSegmentSum: y[s, b…] = the sum of data[i…, b…] over all i with segment_ids[i…] == s.
// Shapes:   segment_ids has the leading dimensions of data; num_segments is a scalar that must be
//           known when the step is compiled.
// Errors:   InvalidArgument at run time if an id is at least num_segments; negative ids are
//           skipped.
// Gradient: dy gathered by segment_ids, 0 where they are negative.
// Determinism: rows are added in order.
Output UnsortedSegmentSum(const Scope& scope, Output data, Output segment_ids, Output num_segments);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_GATHER_H_
