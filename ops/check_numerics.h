// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_CHECK_NUMERICS_H_
#define MIRRORFLOW_OPS_CHECK_NUMERICS_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// CheckNumerics: its operand, unchanged.
// Dtypes:   half, bfloat16, float, double.
// Errors:   InvalidArgument at run time, with `message`, if an element is infinite or NaN.
// Gradient: dy, checked in the same way.
Output CheckNumerics(const Scope& scope, Output tensor, absl::string_view message);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_CHECK_NUMERICS_H_
