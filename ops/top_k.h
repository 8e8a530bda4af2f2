// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_TOP_K_H_
#define MIRRORFLOW_OPS_TOP_K_H_

#include <cstdint>

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterTopK(OpRegistry& ops);

namespace ops {

struct TopKV2Options {
  bool sorted = true;              // where it is false they are sorted all the same
  DataType index_type = DT_INT32;  // or DT_INT64
};

struct TopKV2Outputs {
  Output values;
  Output indices;
};

// TopKV2: the k largest elements along the last dimension, the largest first, and where they are;
// of equal ones the first come first. NaN comes last.
// Shapes:   k a scalar constant, at most the last dimension, which becomes k.
// Errors:   InvalidArgument for a last dimension that the type of the indices cannot count.
// Gradient: of the values, to where they came from.
TopKV2Outputs TopKV2(const Scope& scope, Output input, Output k, const TopKV2Options& options = {});
TopKV2Outputs TopKV2(const Scope& scope, Output input, int64_t k,
                     const TopKV2Options& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_TOP_K_H_
