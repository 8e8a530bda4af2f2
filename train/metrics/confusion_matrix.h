// SPDX-License-Identifier: Apache-2.0
//
// Metrics that count predictions by true class and predicted class. Predictions and labels outside
// [0, num_classes) are not counted.
//
// Shapes:   predictions and labels [batch, …]: class indices (int32 or int64), for example from
//           ops::ArgMax.
//
// Errors:   InvalidArgument if the shapes differ, or if num_classes is outside [1, 30000].
#ifndef MIRRORFLOW_TRAIN_METRICS_CONFUSION_MATRIX_H_
#define MIRRORFLOW_TRAIN_METRICS_CONFUSION_MATRIX_H_

#include <cstdint>
#include <optional>
#include <string>

#include "framework/graph/scope.h"
#include "train/metrics/metric.h"

namespace mirrorflow {
namespace metrics {

struct ConfusionMatrixOptions {
  std::optional<int64_t> ignore_class = std::nullopt;  // labels of this class are not counted
  Output sample_weight = {};
  std::string name = "";  // empty: the metric's own name
};

// The number of examples with each true class (row) and predicted class (column), over all batches:
// double [num_classes, num_classes]. With sample_weight, the sum of the examples' weights instead.
Metric ConfusionMatrix(const Scope& scope, Output predictions, Output labels, int64_t num_classes,
                       const ConfusionMatrixOptions& options = {});

// The mean intersection over union, a float: true positives / (true positives + false positives +
// false negatives) for each class, averaged over the classes that occur as a label or prediction.
Metric MeanIoU(const Scope& scope, Output predictions, Output labels, int64_t num_classes,
               const ConfusionMatrixOptions& options = {});

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_CONFUSION_MATRIX_H_
