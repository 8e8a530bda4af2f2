// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_BITCAST_H_
#define MIRRORFLOW_OPS_BITCAST_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterBitcast(OpRegistry& ops);

namespace ops {

// Bitcast: the same bytes, reinterpreted as elements of `dtype`.
// Shapes:   elements that are n times smaller add a last dimension of size n; elements that are n
//           times larger remove it.
// Gradient: none.
Output Bitcast(const Scope& scope, Output input, DataType dtype);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_BITCAST_H_
