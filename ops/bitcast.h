// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_BITCAST_H_
#define MIRRORFLOW_OPS_BITCAST_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// Bitcast: the same bytes, reinterpreted as elements of `dtype`, like tf.bitcast.
// Shapes:   if `dtype` is n times smaller, the result has an additional last dimension of size n;
//           if it is n times larger, the input's last dimension, which must have size n, is
//           removed.
// Errors:   InvalidArgument if the last dimension does not have that size.
// Gradient: none.
Output Bitcast(const Scope& scope, Output input, DataType dtype);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_BITCAST_H_
