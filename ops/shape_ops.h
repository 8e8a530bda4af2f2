// SPDX-License-Identifier: Apache-2.0
//
// Ops that read shapes (Shape, ShapeN, Size, Rank, VariableShape) and ops that create a tensor of a
// given shape (Fill, Range, LinSpace).
#ifndef MIRRORFLOW_OPS_SHAPE_OPS_H_
#define MIRRORFLOW_OPS_SHAPE_OPS_H_

#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow::ops {

struct ShapeOptions {
  DataType out_type = DT_INT32;  // or DT_INT64
};

// Shape: the dimensions of the global value as a vector. All dimensions are known when the step is
// compiled, so an op that needs a known shape can take one that is computed from this. No gradient.
Output Shape(const Scope& scope, Output input, const ShapeOptions& options = {});
std::vector<Output> ShapeN(const Scope& scope, absl::Span<const Output> inputs,
                           const ShapeOptions& options = {});
// Size: the number of elements, a scalar.
Output Size(const Scope& scope, Output input, const ShapeOptions& options = {});
// Rank: the number of dimensions, an int32 scalar.
Output Rank(const Scope& scope, Output input);

// VariableShape: the dimensions of the variable that `handle` refers to.
Output VariableShape(const Scope& scope, Output handle, const ShapeOptions& options = {});

// Returns the shape of `value` for use as an operand: a constant if the shape is fully known when
// the op is added, otherwise the output of a Shape op.
Output ShapeOperand(const Scope& scope, Output value, DataType out_type = DT_INT32);

inline constexpr char kFill[] = "Fill";  // for passes that match this op

// Fill: a tensor of shape `dims` whose elements are all `value`, a scalar. `dims`, a vector, must
// be known when the step is compiled.
// Gradient: d value = the sum of dy.
Output Fill(const Scope& scope, Output dims, Output value);

// Range: start, start + delta, … below `limit` (above it for a negative delta); all three are
// scalars of one dtype that must be known when the step is compiled.
// Errors:   InvalidArgument if delta is 0, or if it has the wrong sign to reach the limit.
// Gradient: none.
Output Range(const Scope& scope, Output start, Output limit, Output delta);

// LinSpace: `num` evenly spaced values from `start` to `stop`, inclusive. `num` is at least 1 and
// must be known when the step is compiled.
Output LinSpace(const Scope& scope, Output start, Output stop, Output num);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_SHAPE_OPS_H_
