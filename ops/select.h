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

// Select: the same without broadcasting, TensorFlow 1's: t and e are of one shape, and so is the
// condition, or it is a scalar, or a vector that says one thing of each row.
Output Select(const Scope& scope, Output condition, Output t, Output e);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_SELECT_H_
