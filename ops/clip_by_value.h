// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_CLIP_BY_VALUE_H_
#define MIRRORFLOW_OPS_CLIP_BY_VALUE_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterClipByValue(OpRegistry& ops);

namespace ops {

// ClipByValue: output = max(min(t, clip_value_max), clip_value_min).
// Shapes:   t any, kept; each bound is a scalar or of the shape of t.
// Dtypes:   float, double, int32, int64, uint8.
// Special:  a NaN in t stays; a bound that is NaN does not bind.
// Errors:   InvalidArgument for a bound of another shape.
// Gradient: dy goes to what was chosen: t, or the bound that t lies beyond.
Output ClipByValue(const Scope& scope, Output t, Output clip_value_min, Output clip_value_max);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CLIP_BY_VALUE_H_
