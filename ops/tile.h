// SPDX-License-Identifier: Apache-2.0
//
// Ops that repeat their input: Tile and BroadcastTo.
#ifndef MIRRORFLOW_OPS_TILE_H_
#define MIRRORFLOW_OPS_TILE_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// Tile: the input, repeated `multiples[d]` times along each dimension d.
// Shapes:   multiples [R] must be known when the step is compiled.
// Errors:   InvalidArgument if multiples does not have one element per dimension, or one is
//           negative.
// Gradient: the sum over the copies.
Output Tile(const Scope& scope, Output input, Output multiples);

// BroadcastTo: the input broadcast to `shape` by NumPy's rules. `shape` must be known when the step
// is compiled.
// Errors:   InvalidArgument if the input does not broadcast to `shape`.
// Gradient: the sum over the copies.
Output BroadcastTo(const Scope& scope, Output input, Output shape);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_TILE_H_
