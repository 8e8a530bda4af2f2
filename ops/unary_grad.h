// SPDX-License-Identifier: Apache-2.0
//
// The gradients of element-wise ops that have separate gradient ops in TensorFlow: dx[i] = f(v[i],
// dy[i]), where v is the forward result (for ReluGrad, the features or the result). Linear in dy.
#ifndef MIRRORFLOW_OPS_UNARY_GRAD_H_
#define MIRRORFLOW_OPS_UNARY_GRAD_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr char kReluGrad[] = "ReluGrad";  // for passes that match this op

// Shapes:   both operands and the result have the same shape.
// Dtypes:   half, bfloat16, float, double; ReluGrad also int32, int64 and uint8.
// Errors:   InvalidArgument if the shapes differ.
// Order:    as in TensorFlow; only ReluGrad takes the gradient first.
Output ReluGrad(const Scope& scope, Output gradients, Output features);
Output TanhGrad(const Scope& scope, Output y, Output dy);
Output SigmoidGrad(const Scope& scope, Output y, Output dy);
Output SqrtGrad(const Scope& scope, Output y, Output dy);
Output RsqrtGrad(const Scope& scope, Output y, Output dy);
Output ReciprocalGrad(const Scope& scope, Output y, Output dy);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_UNARY_GRAD_H_
