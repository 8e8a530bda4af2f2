// SPDX-License-Identifier: Apache-2.0
//
// Precision, recall and their weighted harmonic mean, the F score, over all batches.
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
  // Predictions above the threshold are positive. With several thresholds, the metric has one value
  // for each. Empty: a single threshold of 0.5, or no threshold if top_k is set.
  std::vector<double> thresholds = {};
  // If set, predictions that are not among the top_k largest along the last dimension are negative.
  std::optional<int64_t> top_k = std::nullopt;
  // If set, only predictions and labels at this index of the last dimension are counted.
  std::optional<int64_t> class_id = std::nullopt;
  Output sample_weight = {};
  std::string name = "";  // empty: the metric's own name
};

// true positives / (true positives + false positives); 0 if both counts are 0.
// Shapes:   predictions (probabilities) and labels [batch, …] -> a float scalar, or a vector with
//           one element per threshold if there are several.
// Dtypes:   predictions half, bfloat16, float, double; labels of any numeric dtype or bool. A label
//           of 0 is negative; any other label is positive.
// Errors:   InvalidArgument if the shapes differ, for thresholds outside [0, 1], for a top_k
//           outside [1, classes] and for a class_id outside [0, classes), where `classes` is the
//           last dimension, which must then be known.
Metric Precision(const Scope& scope, Output predictions, Output labels,
                 const ThresholdOptions& options = {});

// true positives / (true positives + false negatives); 0 if both counts are 0.
// Shapes, dtypes and errors: as for Precision.
Metric Recall(const Scope& scope, Output predictions, Output labels,
              const ThresholdOptions& options = {});

enum class FScoreAverage {
  kNone,      // one score per class: [classes]
  kMicro,     // one score, computed from the counts of all classes
  kMacro,     // the mean of the classes' scores
  kWeighted,  // the mean of the classes' scores, weighted by their label counts
};

struct FBetaScoreOptions {
  FScoreAverage average = FScoreAverage::kNone;
  double beta = 1;  // how many times as much recall counts as precision; above 0 and finite
  // Predictions above this threshold, in (0, 1], are positive. If unset, the largest prediction of
  // each row is positive, unless it is 0.
  std::optional<double> threshold = std::nullopt;
  Output sample_weight = {};  // [batch]
  std::string name = "fbeta_score";
};

// (1 + beta²) * precision * recall / (beta² * precision + recall) over all batches.
// Shapes:   predictions and labels [batch, classes] -> a float scalar, or [classes] with kNone.
//           Labels are 0 or 1, of any numeric dtype.
// Errors:   InvalidArgument for other shapes, if the number of classes is unknown, and for a beta
//           or threshold that is out of range.
Metric FBetaScore(const Scope& scope, Output predictions, Output labels,
                  const FBetaScoreOptions& options = {});

struct F1ScoreOptions {
  FScoreAverage average = FScoreAverage::kNone;
  std::optional<double> threshold = std::nullopt;
  Output sample_weight = {};  // [batch]
  std::string name = "f1_score";
};

// FBetaScore with beta = 1: the harmonic mean of precision and recall.
Metric F1Score(const Scope& scope, Output predictions, Output labels,
               const F1ScoreOptions& options = {});

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_PRECISION_RECALL_H_
