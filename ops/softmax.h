// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_SOFTMAX_H_
#define MIRRORFLOW_OPS_SOFTMAX_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr char kSoftmax[] = "Softmax";  // for passes that match this op

// Softmax: exp(logits[…,c]) / sum_c exp(logits[…,c]), computed after subtracting the maximum from
// the logits.
// Shapes:   rank 1 or more; leading dimensions may be 0.
// Dtypes:   half, bfloat16, float, double.
// Gradient: d logits = (dy - sum_c dy * softmax) * softmax
Output Softmax(const Scope& scope, Output logits);

// LogSoftmax: logits[…,c] - log sum_c exp(logits[…,c]), computed in the same way.
// Gradient: d logits = dy - exp(log softmax) * sum_c dy
Output LogSoftmax(const Scope& scope, Output logits);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_SOFTMAX_H_
