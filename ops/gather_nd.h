// SPDX-License-Identifier: Apache-2.0
//
// Ops that read, add to or replace slices of a tensor. A vector of indices specifies the position
// of each slice.
#ifndef MIRRORFLOW_OPS_GATHER_ND_H_
#define MIRRORFLOW_OPS_GATHER_ND_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr char kGatherNd[] = "GatherNd";

// GatherNd: y[i…, b…] = params[indices[i…, 0], …, indices[i…, K-1], b…].
// Shapes:   indices is [i…, K], where K is at most the rank of params.
// Errors:   InvalidArgument at run time for an index out of range.
// Gradient: ScatterNd.
Output GatherNd(const Scope& scope, Output params, Output indices);

// ScatterNd: starts from a tensor of zeros, and adds each slice updates[i…, b…] at position
// indices[i…, :]. The result has shape `shape`, which must be known when the step is compiled.
// Errors:   InvalidArgument if `updates` does not match `indices` and `shape`, and at run time if
//           an index is out of range.
// Gradient: GatherNd, for updates.
Output ScatterNd(const Scope& scope, Output indices, Output updates, Output shape);

inline constexpr char kTensorScatterUpdate[] = "TensorScatterUpdate";

// TensorScatterUpdate: `tensor`, with the slice at position indices[i…, :] replaced by updates[i…,
// b…]. Works in place if `tensor` is not read afterwards.
// Shapes:   indices has at least two dimensions.
// Errors:   InvalidArgument at run time for an index out of range.
// Gradient: for the tensor, dy with zeros at those positions; for the updates, GatherNd.
Output TensorScatterUpdate(const Scope& scope, Output tensor, Output indices, Output updates);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_GATHER_ND_H_
