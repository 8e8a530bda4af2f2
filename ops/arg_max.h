// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_ARG_MAX_H_
#define MIRRORFLOW_OPS_ARG_MAX_H_

#include <cstdint>

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterArgMax(OpRegistry& ops);

namespace ops {

struct ArgMaxOptions {
  DataType output_type = DT_INT64;  // or DT_INT32
};

// ArgMax: the index of the largest element along one dimension, the first of equal ones. NaN is
// never the largest; index 0 where nothing else is there.
// Shapes:   the input's without dimension `dimension`, a scalar that is a constant when a plan is
//           made; that dimension must not be empty.
// Dtypes:   all.
// Errors:   InvalidArgument for a dimension out of range or empty.
Output ArgMax(const Scope& scope, Output input, Output dimension,
              const ArgMaxOptions& options = {});
Output ArgMax(const Scope& scope, Output input, int64_t dimension,
              const ArgMaxOptions& options = {});

// ArgMin: the same for the smallest element.
Output ArgMin(const Scope& scope, Output input, Output dimension,
              const ArgMaxOptions& options = {});
Output ArgMin(const Scope& scope, Output input, int64_t dimension,
              const ArgMaxOptions& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_ARG_MAX_H_
