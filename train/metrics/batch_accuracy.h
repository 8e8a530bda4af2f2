// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_METRICS_BATCH_ACCURACY_H_
#define MIRRORFLOW_TRAIN_METRICS_BATCH_ACCURACY_H_

#include "framework/graph/scope.h"

namespace mirrorflow {
namespace metrics {

// Accuracy of one batch: the fraction of rows whose largest logit is at the label, a float scalar.
// NaN if a logit is NaN. SparseCategoricalAccuracy covers several batches.
// Shapes:   logits [batch, classes], labels [batch].
Output Accuracy(const Scope& scope, Output logits, Output labels);

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_BATCH_ACCURACY_H_
