// SPDX-License-Identifier: Apache-2.0
//
// Regression errors over all batches: float scalars, 0 before the first batch. Each metric is the
// mean of the loss with the same name in train/losses/regression.h, which has the formula, shapes
// and errors.
#ifndef MIRRORFLOW_TRAIN_METRICS_REGRESSION_H_
#define MIRRORFLOW_TRAIN_METRICS_REGRESSION_H_

#include "framework/graph/scope.h"
#include "train/metrics/metric.h"

namespace mirrorflow {
namespace metrics {

Metric MeanSquaredError(const Scope& scope, Output predictions, Output labels,
                        const MetricOptions& options = {});
// The square root of MeanSquaredError.
Metric RootMeanSquaredError(const Scope& scope, Output predictions, Output labels,
                            const MetricOptions& options = {});
Metric MeanAbsoluteError(const Scope& scope, Output predictions, Output labels,
                         const MetricOptions& options = {});
Metric MeanAbsolutePercentageError(const Scope& scope, Output predictions, Output labels,
                                   const MetricOptions& options = {});
Metric MeanSquaredLogarithmicError(const Scope& scope, Output predictions, Output labels,
                                   const MetricOptions& options = {});
// Has the opposite sign of the loss: 1 for vectors in the same direction, -1 for opposite vectors.
Metric CosineSimilarity(const Scope& scope, Output predictions, Output labels,
                        const MetricOptions& options = {});

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_REGRESSION_H_
