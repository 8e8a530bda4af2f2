// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_ARG_MAX_H_
#define MIRRORFLOW_OPS_ARG_MAX_H_

#include <cstdint>

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

struct ArgMaxOptions {
  DataType output_type = DT_INT64;  // or DT_INT32
};

// ArgMax: the index of the largest element along one dimension, or of the first one if several are
// equal. NaN is never the largest; if all elements are NaN, the index is 0.
// Shapes:   the result has the shape of the input without dimension `dimension`, which must not be
//           empty. `dimension` is a scalar that must be known when the step is compiled; a negative
//           one counts from the end.
// Dtypes:   all.
// Errors:   InvalidArgument if the dimension is out of range or empty.
Output ArgMax(const Scope& scope, Output input, Output dimension,
              const ArgMaxOptions& options = {});
Output ArgMax(const Scope& scope, Output input, int64_t dimension,
              const ArgMaxOptions& options = {});

// ArgMin: like ArgMax, but for the smallest element.
Output ArgMin(const Scope& scope, Output input, Output dimension,
              const ArgMaxOptions& options = {});
Output ArgMin(const Scope& scope, Output input, int64_t dimension,
              const ArgMaxOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_ARG_MAX_H_
