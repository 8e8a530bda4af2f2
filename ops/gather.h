// SPDX-License-Identifier: Apache-2.0
//
// Rows chosen by indices that are data, and their way back: the gradient of GatherV2 is
// UnsortedSegmentSum.
#ifndef MIRRORFLOW_OPS_GATHER_H_
#define MIRRORFLOW_OPS_GATHER_H_

#include <cstdint>

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterGather(OpRegistry& ops);

namespace ops {

struct GatherV2Options {
  int64_t batch_dims = 0;  // negative: from the rank of the indices
};

// GatherV2: y[a…, i…, b…] = params[a…, indices[i…], b…], `axis` many dimensions before the index.
// Shapes:   axis a scalar constant. The first batch_dims dimensions of a and i are one: each of
//           their combinations is a gather of its own.
// Errors:   InvalidArgument at run time for an index out of [0, params.dim(axis)).
// Gradient: d params = UnsortedSegmentSum of dy.
Output GatherV2(const Scope& scope, Output params, Output indices, Output axis,
                const GatherV2Options& options = {});

inline constexpr char kResourceGather[] = "ResourceGather";

struct ResourceGatherOptions {
  int64_t batch_dims = 0;  // not negative
};

// ResourceGather: the same of the variable behind a handle, along its first dimension that is not
// of the batch. In a plan it is a read and a GatherV2.
// Gradient: of the variable UnsortedSegmentSum of dy, dense.
Output ResourceGather(const Scope& scope, Output resource, Output indices,
                      const ResourceGatherOptions& options = {});

// UnsortedSegmentSum: y[s, b…] = the sum of data[i…, b…] over all i with segment_ids[i…] == s.
// Shapes:   segment_ids is as long as the leading dimensions of data; num_segments a scalar
// constant. Errors:   InvalidArgument at run time for an id >= num_segments; negative ids are left
// out. Gradient: dy gathered by segment_ids, 0 where they are negative. Determinism: rows are added
// in their order.
Output UnsortedSegmentSum(const Scope& scope, Output data, Output segment_ids, Output num_segments);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_GATHER_H_
