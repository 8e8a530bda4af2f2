// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_CONSTANT_H_
#define MIRRORFLOW_OPS_CONSTANT_H_

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterConstant(OpRegistry& ops);

namespace ops {

// Const: the tensor in attribute `value`, the same on every replica.
// Shapes:   the shape of `value`. Shape functions can read the value itself.
// Errors:   InvalidArgument if `value` does not have the dtype in attribute `dtype`.
// Gradient: none; the op has no inputs.
Output Const(const Scope& scope, Tensor value);

// `value` as a scalar of `dtype`, rounded if the dtype is a floating-point one. InvalidArgument if
// an integer dtype cannot hold the value, and for a dtype that kernels do not compute in.
Output ScalarConst(const Scope& scope, DataType dtype, double value);

// `values` as an int32 or int64 vector: a shape, a permutation, a list of axes. InvalidArgument if
// a number does not fit.
Output VectorConst(const Scope& scope, absl::Span<const int64_t> values, DataType dtype = DT_INT32);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONSTANT_H_
