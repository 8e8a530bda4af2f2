// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_DYNAMIC_STITCH_H_
#define MIRRORFLOW_OPS_DYNAMIC_STITCH_H_

#include "absl/types/span.h"
#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// DynamicStitch: y[indices[k][i…], b…] = data[k][i…, b…]; if an index occurs more than once, its
// last row wins.
// Shapes:   the indices, int32, must be known when the step is compiled; data[k] has the dimensions
//           of indices[k] followed by those of a row. y has (largest index + 1) rows. Rows that no
//           index names are 0.
// Errors:   InvalidArgument if an index is negative, or if the shapes do not match.
// Gradient: the rows of dy, for data; 0 for a row that a later one replaced.
Output DynamicStitch(const Scope& scope, absl::Span<const Output> indices,
                     absl::Span<const Output> data);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_DYNAMIC_STITCH_H_
