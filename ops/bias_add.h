// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_BIAS_ADD_H_
#define MIRRORFLOW_OPS_BIAS_ADD_H_

#include <string>

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

inline constexpr char kBiasAdd[] = "BiasAdd";  // for passes that match these ops
inline constexpr char kBiasAddGrad[] = "BiasAddGrad";

struct BiasAddOptions {
  std::string data_format = "NHWC";  // channels are the last dimension; "NCHW": dimension 1
};

// BiasAdd: value[…,c] + bias[c].
// Shapes:   value has rank 2 or more; bias is [C], where C is value's channel count.
// Errors:   InvalidArgument if the bias does not have C elements.
// Dtypes:   half, bfloat16, float, double, int32, int64, uint8.
// Gradient: d value = dy, d bias = BiasAddGrad(dy).
Output BiasAdd(const Scope& scope, Output value, Output bias, const BiasAddOptions& options = {});

// BiasAddGrad: the sum of out_backprop over all dimensions except the channels; 0 if there are no
// rows.
Output BiasAddGrad(const Scope& scope, Output out_backprop, const BiasAddOptions& options = {});

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_BIAS_ADD_H_
