// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_SELECT_H_
#define MIRRORFLOW_OPS_SELECT_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterSelect(OpRegistry& ops);

namespace ops {

// SelectV2: output[i] = condition[i] ? t[i] : e[i].
// Shapes:   any three that broadcast.
// Dtypes:   condition bool; t and e of one dtype, any.
// Errors:   InvalidArgument if the shapes do not broadcast.
// Gradient: dy where the operand was chosen, 0 elsewhere.
Output SelectV2(const Scope& scope, Output condition, Output t, Output e);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_SELECT_H_
