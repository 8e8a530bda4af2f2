// SPDX-License-Identifier: Apache-2.0
//
// Ops that keep the elements in their order and change the shape: Reshape, ExpandDims, Squeeze.
// They are views: in a plan they cost nothing.
#ifndef MIRRORFLOW_OPS_RESHAPE_H_
#define MIRRORFLOW_OPS_RESHAPE_H_

#include <cstdint>
#include <vector>

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterReshape(OpRegistry& ops);

namespace ops {

// Reshape: the same elements under another shape.
// Shapes:   shape [R], a constant when a plan is made; at most one -1 in it, which stands for what
//           is left over.
// Errors:   InvalidArgument if the numbers of elements differ or the -1 cannot be told.
// Sharding: kept where the sharded dimension is the outermost of those it is merged with or split
//           from, and the rows it makes are whole; gathered otherwise.
// Gradient: dy under the shape of `tensor`.
Output Reshape(const Scope& scope, Output tensor, Output shape);
// The same for a shape known here: Reshape(scope, x, {-1, 784}).
Output Reshape(const Scope& scope, Output tensor, const mirrorflow::Shape& shape);
// True if Reshape(…, shape) can be told at run time: at most one dimension is unknown.
bool IsReshapeTarget(const mirrorflow::Shape& shape);
// `value` under the shape of `like`: a constant shape where that is known well enough.
Output ReshapeLike(const Scope& scope, Output value, Output like);

// ExpandDims: a dimension of size 1 put in before dimension `axis`, which is in [-1-R, R].
Output ExpandDims(const Scope& scope, Output input, Output axis);
Output ExpandDims(const Scope& scope, Output input, int64_t axis);

struct SqueezeOptions {
  std::vector<int64_t> axis = {};  // empty: every dimension of size 1
};

// Squeeze: without the dimensions of size 1 that `axis` names.
// Errors:   InvalidArgument if one of them has another size.
Output Squeeze(const Scope& scope, Output input, const SqueezeOptions& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_RESHAPE_H_
