// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_BITCAST_H_
#define MIRRORFLOW_OPS_BITCAST_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterBitcast(OpRegistry& ops);

namespace ops {

// Bitcast: the same bytes as elements of `dtype`.
// Shapes:   to elements n times smaller adds a last dimension of size n; to n times larger ones
//           takes it away.
// Gradient: none.
Output Bitcast(const Scope& scope, Output input, DataType dtype);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_BITCAST_H_
