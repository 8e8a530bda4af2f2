// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_SOFTMAX_XENT_H_
#define MIRRORFLOW_OPS_SOFTMAX_XENT_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

struct SoftmaxXent {
  Output loss;      // [B]
  Output backprop;  // [B,C]: the gradient of each loss
};

// SparseSoftmaxCrossEntropyWithLogits: softmax and cross entropy combined, with one loss per row.
//   loss[b] = logsumexp(features[b,:]) - features[b,labels[b]]
//   backprop[b,c] = softmax(features)[b,c] - (c == labels[b] ? 1 : 0)
// Shapes:   features [B,C], labels [B]. B may be 0, C is at least 1.
// Dtypes:   half, bfloat16, float, double; labels int32 or int64.
// Errors:   InvalidArgument if labels does not have B elements, and at run time if a label is
//           outside [0, C); the step then writes no variable.
// Gradient: d features = dloss[:,None] * backprop, plus the gradient that reaches features through
//           backprop; none for labels.
SoftmaxXent SparseSoftmaxCrossEntropyWithLogits(const Scope& scope, Output features, Output labels);

// SoftmaxCrossEntropyWithLogits: the loss for labels that are distributions over the classes.
//   loss[b] = sum_c labels[b,c] * (logsumexp(features[b,:]) - features[b,c])
//   backprop[b,c] = softmax(features)[b,c] - labels[b,c]
// Shapes:   features and labels have any shapes that broadcast to [B,C]. B and C may be 0.
// Errors:   InvalidArgument if they do not broadcast to a matrix.
// Dtypes:   half, bfloat16, float, double.
// Gradient: as above, summed over broadcast dimensions; backprop is the gradient of the loss if the
//           labels of a row add up to 1. d labels = -dloss[:,None] * logsoftmax(features).
SoftmaxXent SoftmaxCrossEntropyWithLogits(const Scope& scope, Output features, Output labels);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_SOFTMAX_XENT_H_
