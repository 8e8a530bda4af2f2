// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_CONSTANT_H_
#define MIRRORFLOW_OPS_CONSTANT_H_

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterConstant(OpRegistry& ops);

namespace ops {

// Const: the tensor in attribute `value`, the same on every replica.
// Shapes:   that of `value`, which is known to every shape function that asks for it.
// Errors:   InvalidArgument if `value` is not of the dtype in attribute `dtype`.
// Gradient: none, it has no input.
Output Const(const Scope& scope, Tensor value);

// `value` as a scalar of `dtype`, rounded for a floating one; InvalidArgument if an integer type
// cannot hold it, or for a dtype that kernels do not compute in.
Output ScalarConst(const Scope& scope, DataType dtype, double value);

// A vector of int32 or int64 numbers: a shape, a permutation, an axis list. InvalidArgument if one
// does not fit.
Output VectorConst(const Scope& scope, absl::Span<const int64_t> values, DataType dtype = DT_INT32);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONSTANT_H_
