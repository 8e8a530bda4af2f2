// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_CONSTANT_H_
#define MIRRORFLOW_OPS_CONSTANT_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// Const: the tensor in attribute `value`, which is the same on every replica.
// Shapes:   the shape of `value`. Shape functions can read the value itself.
// Errors:   InvalidArgument if `value` does not have the dtype in attribute `dtype`.
// Gradient: none; the op has no inputs.
Output Const(const Scope& scope, Tensor value);

// Returns `value` as a scalar of `dtype`, rounded if the dtype is floating-point.
// Errors:   InvalidArgument if an integer dtype cannot hold the value, or if no kernel computes in
//           the dtype.
Output ScalarConst(const Scope& scope, DataType dtype, double value);

// Returns `value` as an int32 scalar for the operand called `operand` of the node that is built
// next, such as an axis.
Output OperandConst(const Scope& scope, absl::string_view operand, int64_t value);

// Returns `values` as an int32 or int64 vector, for a shape, a permutation or a list of axes.
// Errors:   InvalidArgument if a value does not fit.
Output VectorConst(const Scope& scope, absl::Span<const int64_t> values, DataType dtype = DT_INT32);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_CONSTANT_H_
