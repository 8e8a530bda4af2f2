// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_BITCAST_H_
#define MIRRORFLOW_OPS_BITCAST_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterBitcast(OpRegistry& ops);

namespace ops {

// Bitcast: the same bytes, reinterpreted as elements of `dtype`.
// Shapes:   a dtype n times smaller appends a dimension of size n; a dtype n times larger removes
//           the last dimension, which must have size n.
// Gradient: none.
Output Bitcast(const Scope& scope, Output input, DataType dtype);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_BITCAST_H_
