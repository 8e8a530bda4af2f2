// SPDX-License-Identifier: Apache-2.0
//
// Metrics that count predictions by the class of the label and the predicted class. Predictions and
// labels outside [0, num_classes) do not count.
//
// Shapes:   predictions and labels [batch, …], classes (int32 or int64) as ops::ArgMax returns
//           them.
//
// Errors:   InvalidArgument for other shapes, or less than one class.
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
  std::optional<int64_t> ignore_class = std::nullopt;  // labels of this class do not count
  Output sample_weight = {};
  std::string name = "";
};

// The sum of the weights for each label (row) and prediction (column), over all batches: double
// [num_classes, num_classes].
Metric ConfusionMatrix(const Scope& scope, Output predictions, Output labels, int64_t num_classes,
                       const ConfusionMatrixOptions& options = {});

// The mean of true positives / (true positives + false positives + false negatives) over the
// classes that occur, a float.
Metric MeanIoU(const Scope& scope, Output predictions, Output labels, int64_t num_classes,
               const ConfusionMatrixOptions& options = {});

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_CONFUSION_MATRIX_H_
