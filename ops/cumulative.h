// SPDX-License-Identifier: Apache-2.0
//
// Cumulative sums and products along one dimension.
#ifndef MIRRORFLOW_OPS_CUMULATIVE_H_
#define MIRRORFLOW_OPS_CUMULATIVE_H_

#include <cstdint>

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

struct CumulativeOptions {
  bool exclusive = false;  // element i excludes input element i
  bool reverse = false;    // accumulates from the last element to the first
};

// Shapes:   x has rank 1 or more; the result has the same shape. `axis` is a scalar that must be
//           known when the step is compiled; a negative one counts from the end.
// Dtypes:   half, bfloat16, float, double, int32, int64, uint8; integers wrap around.
// Errors:   InvalidArgument if the axis is out of range.
// Sharding: gathered along the axis, kept along all other dimensions.
// Gradient: as in TensorFlow. The gradient of Cumprod is 0 where x is 0.
Output Cumsum(const Scope& scope, Output x, Output axis, const CumulativeOptions& options = {});
Output Cumsum(const Scope& scope, Output x, int64_t axis, const CumulativeOptions& options = {});
Output Cumprod(const Scope& scope, Output x, Output axis, const CumulativeOptions& options = {});
Output Cumprod(const Scope& scope, Output x, int64_t axis, const CumulativeOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_CUMULATIVE_H_
