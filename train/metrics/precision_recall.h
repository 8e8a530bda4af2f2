// SPDX-License-Identifier: Apache-2.0
//
// Precision and recall of binary predictions over all batches.
// Shapes:   predictions, probabilities, and labels [batch, …] -> a float scalar, or a vector with
//           an element for each threshold if there are several.
// Dtypes:   predictions half, bfloat16, float, double; labels of any numeric dtype or bool, where
//           0 is negative and all else is positive.
// Errors:   InvalidArgument for other shapes, for thresholds outside [0, 1], and for a top_k or
//           class_id that does not fit the last dimension.
#ifndef MIRRORFLOW_TRAIN_METRICS_PRECISION_RECALL_H_
#define MIRRORFLOW_TRAIN_METRICS_PRECISION_RECALL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/graph/scope.h"
#include "train/metrics/metric.h"

namespace mirrorflow {
namespace metrics {

struct ThresholdOptions {
  // A prediction above the threshold is positive. Empty: 0.5; with top_k, no threshold.
  std::vector<double> thresholds = {};
  // Predictions that are not among the k largest of the last dimension are negative.
  std::optional<int64_t> top_k = std::nullopt;
  // Only predictions and labels at this index of the last dimension count.
  std::optional<int64_t> class_id = std::nullopt;
  Output sample_weight = {};
  std::string name = "";
};

// true positives / (true positives + false positives); 0 if there are none.
Metric Precision(const Scope& scope, Output predictions, Output labels,
                 const ThresholdOptions& options = {});

// true positives / (true positives + false negatives); 0 if there are none.
Metric Recall(const Scope& scope, Output predictions, Output labels,
              const ThresholdOptions& options = {});

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_PRECISION_RECALL_H_
