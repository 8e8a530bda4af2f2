// SPDX-License-Identifier: Apache-2.0
//
// The fraction of correct predictions: a float in [0, 1]. Each Metric covers all batches since the
// last reset, and is 0 before the first one.
#ifndef MIRRORFLOW_TRAIN_METRICS_ACCURACY_H_
#define MIRRORFLOW_TRAIN_METRICS_ACCURACY_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"
#include "train/metrics/metric.h"

namespace mirrorflow {
namespace metrics {

// Correct if the largest prediction (the first of equal ones) is at the label.
// Shapes:   predictions [batch, …, classes], probabilities or logits; labels [batch, …] (int32 or
//           int64).
// Errors:   InvalidArgument for other shapes.
Metric SparseCategoricalAccuracy(const Scope& scope, Output predictions, Output labels,
                                 const MetricOptions& options = {});

// SparseCategoricalAccuracy for labels [batch, …, classes], whose largest element marks the class.
Metric CategoricalAccuracy(const Scope& scope, Output predictions, Output labels,
                           const MetricOptions& options = {});

struct BinaryAccuracyOptions {
  double threshold = 0.5;
  Output sample_weight = {};
  std::string name = "binary_accuracy";
};

// Correct if the prediction is above the threshold and the label is 1, or the prediction is not
// above the threshold and the label is 0.
// Shapes:   predictions, probabilities, and labels [batch, …]; labels of any numeric dtype.
// Errors:   InvalidArgument for other shapes, and for a threshold outside (0, 1), as in Keras.
Metric BinaryAccuracy(const Scope& scope, Output predictions, Output labels,
                      const BinaryAccuracyOptions& options = {});

struct TopKAccuracyOptions {
  int64_t k = 5;
  Output sample_weight = {};
  std::string name = "";
};

// Correct if fewer than k predictions are larger than the one at the label, and none is infinite.
// Shapes and errors: as for SparseCategoricalAccuracy and CategoricalAccuracy; InvalidArgument also
// for k < 1.
Metric SparseTopKCategoricalAccuracy(const Scope& scope, Output predictions, Output labels,
                                     const TopKAccuracyOptions& options = {});
Metric TopKCategoricalAccuracy(const Scope& scope, Output predictions, Output labels,
                               const TopKAccuracyOptions& options = {});

// The accuracy of a single batch: the fraction of rows whose largest logit is at the label, a float
// scalar. NaN if a logit is NaN. To cover several batches, use SparseCategoricalAccuracy.
// Shapes:   logits [batch, classes], labels [batch].
Output Accuracy(const Scope& scope, Output logits, Output labels);

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_ACCURACY_H_
