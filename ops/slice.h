// SPDX-License-Identifier: Apache-2.0
//
// Slice extracts a block of a tensor; Pad surrounds a tensor with zeros. Each is the gradient of
// the other.
#ifndef MIRRORFLOW_OPS_SLICE_H_
#define MIRRORFLOW_OPS_SLICE_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr char kPad[] = "Pad";  // for passes that match this op

// Slice: y[i] = x[begin + i].
// Shapes:   begin [R] and size [R] must be known when the step is compiled; y has shape `size`,
//           where -1 means the rest of the dimension.
// Errors:   InvalidArgument if the block is not inside x.
// Gradient: dy padded with zeros to the shape of x.
Output Slice(const Scope& scope, Output input, Output begin, Output size);

// Pad: y[begin + i] = x[i], 0 elsewhere.
// Shapes:   paddings [R,2], the number of zeros before and after each dimension, must be known when
//           the step is compiled.
// Errors:   InvalidArgument if a padding is negative.
// Gradient: the slice of dy that corresponds to x.
Output Pad(const Scope& scope, Output input, Output paddings);

// PadV2: like Pad, but pads with `constant_values`, a scalar, instead of 0.
Output PadV2(const Scope& scope, Output input, Output paddings, Output constant_values);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_SLICE_H_
