// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_SELECT_H_
#define MIRRORFLOW_OPS_SELECT_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// SelectV2: output[i] = condition[i] ? t[i] : e[i].
// Shapes:   operands of any shapes that broadcast.
// Dtypes:   bool for condition; any dtype for t and e, but the same for both.
// Errors:   InvalidArgument if the shapes do not broadcast.
// Gradient: dy where the operand was chosen, 0 elsewhere.
Output SelectV2(const Scope& scope, Output condition, Output t, Output e);

// Select: TensorFlow 1's version, without broadcasting: t and e have the same shape. The condition
// has the same shape, or is a scalar or a vector with one element per row (dimension 0).
// Errors:   InvalidArgument if the shapes do not match.
// Gradient: as for SelectV2.
Output Select(const Scope& scope, Output condition, Output t, Output e);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_SELECT_H_
