// SPDX-License-Identifier: Apache-2.0
//
// Ops that change the shape but keep the order of the elements: Reshape, ExpandDims, Squeeze. They
// are views and cost nothing at run time.
#ifndef MIRRORFLOW_OPS_RESHAPE_H_
#define MIRRORFLOW_OPS_RESHAPE_H_

#include <cstdint>
#include <vector>

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// Reshape: the same elements with another shape.
// Shapes:   `shape`, a vector, must be known when the step is compiled; it may contain one -1,
//           which is inferred from the number of elements.
// Errors:   InvalidArgument if the element counts differ or the -1 cannot be inferred.
// Sharding: kept if the sharded dimension is the outermost of those that it is merged with or split
//           into, and each of its rows becomes a whole number of rows; otherwise the value is
//           gathered.
// Gradient: dy with the shape of `tensor`.
Output Reshape(const Scope& scope, Output tensor, Output shape);
// Reshapes to a shape that is given as a C++ value: Reshape(scope, x, {-1, 784}).
Output Reshape(const Scope& scope, Output tensor, const mirrorflow::Shape& shape);
// Returns true if Reshape(…, shape) can infer the dimensions at run time: at most one dimension is
// unknown, and if one is, no dimension is 0.
bool IsReshapeTarget(const mirrorflow::Shape& shape);
// Returns `value` with the shape of `like`. The shape operand is constant if enough of the shape is
// known.
Output ReshapeLike(const Scope& scope, Output value, Output like);

// ExpandDims: inserts a dimension of size 1, which becomes dimension `axis` of the result. `axis`
// is in [-1-R, R], where R is the rank of the input, and must be known when the step is compiled.
// Errors:   InvalidArgument if the axis is out of range.
// Gradient: dy with the shape of `input`.
Output ExpandDims(const Scope& scope, Output input, Output axis);
Output ExpandDims(const Scope& scope, Output input, int64_t axis);

struct SqueezeOptions {
  std::vector<int64_t> axis = {};  // empty: every dimension of size 1
};

// Squeeze: removes the dimensions that `axis` names, each of which must have size 1.
// Errors:   InvalidArgument if one of them has a size other than 1 or is out of range.
// Gradient: dy with the shape of `input`.
Output Squeeze(const Scope& scope, Output input, const SqueezeOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_RESHAPE_H_
