// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_DROPOUT_H_
#define MIRRORFLOW_OPS_DROPOUT_H_

#include "framework/graph/scope.h"
#include "ops/random.h"

namespace mirrorflow {
namespace ops {

// Dropout: x / (1 - rate), where each element is 0 instead with probability `rate`, built of other
// ops as TensorFlow's tf.nn.dropout is. The mask does not depend on the number of replicas.
// Dtypes:   float, double.
// Errors:   InvalidArgument unless 0 <= rate < 1. A rate of 0 gives x itself.
Output Dropout(const Scope& scope, Output x, double rate, const RandomOptions& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_DROPOUT_H_
