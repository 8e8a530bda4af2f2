// SPDX-License-Identifier: Apache-2.0
//
// Accuracy is the fraction of correct predictions: a float in [0, 1]. Each Metric covers all
// batches since the last reset, and is 0 before the first batch.
#ifndef MIRRORFLOW_TRAIN_METRICS_ACCURACY_H_
#define MIRRORFLOW_TRAIN_METRICS_ACCURACY_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"
#include "train/metrics/metric.h"

namespace mirrorflow {
namespace metrics {

// The fraction of predictions whose largest element (the first of several equal ones) is at the
// index that the label gives.
// Shapes:   predictions [batch, …, classes], probabilities or logits; labels [batch, …] (int32 or
//           int64).
// Errors:   InvalidArgument for other shapes.
Metric SparseCategoricalAccuracy(const Scope& scope, Output predictions, Output labels,
                                 const MetricOptions& options = {});

// Like SparseCategoricalAccuracy, for labels [batch, …, classes], such as one-hot labels: the index
// of a label's largest element is its class.
Metric CategoricalAccuracy(const Scope& scope, Output predictions, Output labels,
                           const MetricOptions& options = {});

struct BinaryAccuracyOptions {
  double threshold = 0.5;
  Output sample_weight = {};
  std::string name = "binary_accuracy";
};

// The fraction of predictions that are above the threshold where the label is 1, and not above it
// where the label is 0.
// Shapes:   predictions (probabilities) and labels [batch, …]; labels of any numeric dtype.
// Errors:   InvalidArgument if the shapes differ, and for a threshold outside (0, 1), as in Keras.
Metric BinaryAccuracy(const Scope& scope, Output predictions, Output labels,
                      const BinaryAccuracyOptions& options = {});

struct TopKAccuracyOptions {
  int64_t k = 5;  // at least 1
  Output sample_weight = {};
  std::string name = "";  // empty: the metric's own name
};

// The fraction of predictions with fewer than k elements that are larger than the element at the
// label, and without infinite elements.
// Shapes:   as for SparseCategoricalAccuracy and CategoricalAccuracy.
// Errors:   InvalidArgument for other shapes, if the number of classes is unknown, and for k < 1.
Metric SparseTopKCategoricalAccuracy(const Scope& scope, Output predictions, Output labels,
                                     const TopKAccuracyOptions& options = {});
Metric TopKCategoricalAccuracy(const Scope& scope, Output predictions, Output labels,
                               const TopKAccuracyOptions& options = {});

// Returns the accuracy of a single batch: the fraction of rows whose largest logit is at the label,
// a float scalar. NaN if a logit is NaN. To cover several batches, use SparseCategoricalAccuracy.
// Shapes:   logits [batch, classes], labels [batch].
// Errors:   InvalidArgument for other shapes.
Output Accuracy(const Scope& scope, Output logits, Output labels);

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_ACCURACY_H_
