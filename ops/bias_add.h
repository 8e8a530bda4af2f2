// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_BIAS_ADD_H_
#define MIRRORFLOW_OPS_BIAS_ADD_H_

#include <string>

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterBiasAdd(OpRegistry& ops);

namespace ops {

inline constexpr char kBiasAdd[] = "BiasAdd";  // for passes that are about it
inline constexpr char kBiasAddGrad[] = "BiasAddGrad";

struct BiasAddOptions {
  std::string data_format = "NHWC";  // the bias goes along the last dimension; "NCHW": dimension 1
};

// BiasAdd: value[…,c] + bias[c].
// Shapes:   value of rank 2 or more, bias [C] with C the dimension of channels in the value.
// Dtypes:   float, double, int32, int64, uint8.
// Gradient: d value = dy, d bias = BiasAddGrad(dy).
Output BiasAdd(const Scope& scope, Output value, Output bias, const BiasAddOptions& options = {});

// BiasAddGrad: sum over all dimensions of dy but that of channels. The sum of no rows is 0.
Output BiasAddGrad(const Scope& scope, Output out_backprop, const BiasAddOptions& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_BIAS_ADD_H_
