// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_TOP_K_H_
#define MIRRORFLOW_OPS_TOP_K_H_

#include <cstdint>

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

struct TopKV2Options {
  bool sorted = true;              // ignored: the values are always sorted
  DataType index_type = DT_INT32;  // or DT_INT64
};

struct TopKV2Outputs {
  Output values;
  Output indices;
};

// TopKV2: the k largest elements along the last dimension, in descending order, and their indices.
// Equal elements keep their order. NaN is sorted last.
// Shapes:   k, a scalar that must be known when the step is compiled, is at most the size of the
//           last dimension. That dimension of the results has size k.
// Errors:   InvalidArgument if k is negative or exceeds the last dimension, or if that dimension is
//           too large for index_type.
// Gradient: the gradient of the values, placed at their positions in the input.
TopKV2Outputs TopKV2(const Scope& scope, Output input, Output k, const TopKV2Options& options = {});
TopKV2Outputs TopKV2(const Scope& scope, Output input, int64_t k,
                     const TopKV2Options& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_TOP_K_H_
