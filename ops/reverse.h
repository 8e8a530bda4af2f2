// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_REVERSE_H_
#define MIRRORFLOW_OPS_REVERSE_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// ReverseV2: reverses the dimensions listed in `axis`, a vector that must be known when the step is
// compiled.
// Errors:   InvalidArgument if an axis is out of range or given twice.
// Sharding: gathered along reversed dimensions, kept along all others.
// Gradient: dy reversed.
Output ReverseV2(const Scope& scope, Output tensor, Output axis);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_REVERSE_H_
