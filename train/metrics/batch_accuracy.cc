// SPDX-License-Identifier: Apache-2.0
#include "train/metrics/batch_accuracy.h"

#include "ops/arg_max.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/reduction.h"
#include "train/losses/reductions.h"

namespace mirrorflow {
namespace metrics {

Output Accuracy(const Scope& scope, Output logits, Output labels) {
  const Scope s = scope.SubScope("accuracy");
  const Output predicted = ops::ArgMax(s, logits, 1, {.output_type = DT_INT32});
  if (!CheckEqualShapes(s, "accuracy", predicted, labels)) return Output();
  const Output hits = ops::Equal(s, predicted, ops::Cast(s, labels, DT_INT32));
  return ops::Mean(s, ops::Cast(s, hits, DT_FLOAT));
}

}  // namespace metrics
}  // namespace mirrorflow
