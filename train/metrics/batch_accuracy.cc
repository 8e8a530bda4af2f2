// SPDX-License-Identifier: Apache-2.0
#include "train/metrics/batch_accuracy.h"

#include <limits>

#include "ops/arg_max.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/select.h"
#include "ops/unary.h"
#include "train/losses/reductions.h"

namespace mirrorflow {
namespace metrics {

Output Accuracy(const Scope& scope, Output logits, Output labels) {
  const Scope s = scope.SubScope("accuracy");
  const Output predicted = ops::ArgMax(s, logits, 1, {.output_type = DT_INT32});
  if (!CheckEqualShapes(s, "accuracy", predicted, labels)) return Output();
  const Output hits = ops::Equal(s, predicted, ops::Cast(s, labels, DT_INT32));
  Output right = ops::Cast(s, hits, DT_FLOAT);
  if (IsFloating(logits.dtype())) {
    const Output nan = ops::ScalarConst(s, DT_FLOAT, std::numeric_limits<double>::quiet_NaN());
    right = ops::SelectV2(s, ops::Any(s, ops::IsNan(s, logits), {1}), nan, right);
  }
  return ops::Mean(s, right);
}

}  // namespace metrics
}  // namespace mirrorflow
