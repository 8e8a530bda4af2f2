// SPDX-License-Identifier: Apache-2.0
//
// Slices taken from, and added to, places that are given by several indices each.
#ifndef MIRRORFLOW_OPS_GATHER_ND_H_
#define MIRRORFLOW_OPS_GATHER_ND_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterGatherNd(OpRegistry& ops);

namespace ops {

// GatherNd: y[i…, b…] = params[indices[i…, 0], …, indices[i…, K-1], b…].
// Shapes:   indices [i…, K], K at most the rank of params.
// Errors:   InvalidArgument at run time for an index out of range.
// Gradient: ScatterNd.
Output GatherNd(const Scope& scope, Output params, Output indices);

// ScatterNd: zeros of shape `shape`, a constant, to which updates[i…, b…] are added at the place
// that indices[i…, :] say. Gradient: of updates GatherNd.
Output ScatterNd(const Scope& scope, Output indices, Output updates, Output shape);

inline constexpr char kTensorScatterUpdate[] = "TensorScatterUpdate";

// TensorScatterUpdate: `tensor` with the slice updates[i…, b…] at the place that indices[i…, :]
// say; indices have at least two dimensions. In place where `tensor` is not read any more.
// Gradients: of the tensor dy with zeros there, of the updates GatherNd. Errors:   InvalidArgument
// at run time for an index out of range.
Output TensorScatterUpdate(const Scope& scope, Output tensor, Output indices, Output updates);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_GATHER_ND_H_
