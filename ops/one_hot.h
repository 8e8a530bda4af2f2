// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_ONE_HOT_H_
#define MIRRORFLOW_OPS_ONE_HOT_H_

#include <cstdint>

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

struct OneHotOptions {
  int64_t axis = -1;  // index of the new dimension; -1: last
};

// OneHot: y[…, k, …] = on_value where the index is k, and off_value elsewhere.
// Shapes:   adds a dimension of size `depth`, a scalar that must be known when the step is
//           compiled; on_value and off_value are scalars.
// Errors:   InvalidArgument if `depth` is negative or the axis is out of range.
// Special:  an index outside [0, depth) yields off_value everywhere.
// Gradient: for on_value and off_value; none for indices.
Output OneHot(const Scope& scope, Output indices, Output depth, Output on_value, Output off_value,
              const OneHotOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_ONE_HOT_H_
