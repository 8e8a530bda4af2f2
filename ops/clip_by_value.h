// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_CLIP_BY_VALUE_H_
#define MIRRORFLOW_OPS_CLIP_BY_VALUE_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// ClipByValue: output = max(min(t, clip_value_max), clip_value_min).
// Shapes:   the output has t's shape; each bound is a scalar or has t's shape.
// Dtypes:   half, bfloat16, float, double, int32, int64, uint8.
// Special:  NaN in t propagates; a bound that is NaN has no effect.
// Errors:   InvalidArgument if a bound has a different shape.
// Gradient: dy flows to the chosen operand: t, or the bound that replaced it.
Output ClipByValue(const Scope& scope, Output t, Output clip_value_min, Output clip_value_max);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_CLIP_BY_VALUE_H_
