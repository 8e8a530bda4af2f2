// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_DROPOUT_H_
#define MIRRORFLOW_OPS_DROPOUT_H_

#include "framework/graph/scope.h"
#include "ops/random.h"

namespace mirrorflow {
namespace ops {

// Dropout: sets each element of x to 0 with probability `rate` and divides the others by 1 - rate.
// Like TensorFlow's tf.nn.dropout, it is built from other ops. The mask does not depend on the
// number of replicas.
// Dtypes:   half, bfloat16, float, double.
// Errors:   InvalidArgument unless 0 <= rate < 1. A rate of 0 returns x itself.
Output Dropout(const Scope& scope, Output x, double rate, const RandomOptions& options = {});

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_DROPOUT_H_
