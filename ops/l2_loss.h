// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_L2_LOSS_H_
#define MIRRORFLOW_OPS_L2_LOSS_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// L2Loss: output = sum(t^2) / 2, a scalar, like tf.nn.l2_loss. It serves for weight decay.
// Shapes:   any; the output is 0 if t is empty.
// Dtypes:   half, bfloat16, float, double.
// Gradient: t * dy.
Output L2Loss(const Scope& scope, Output t);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_L2_LOSS_H_
