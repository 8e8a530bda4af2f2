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
  // Predictions above the threshold are positive. Empty: 0.5, or no threshold if top_k is set.
  std::vector<double> thresholds = {};
  // Predictions that are not among the k largest along the last dimension are negative.
  std::optional<int64_t> top_k = std::nullopt;
  // If set, only predictions and labels at this index of the last dimension are counted.
  std::optional<int64_t> class_id = std::nullopt;
  Output sample_weight = {};
  std::string name = "";
};

// true positives / (true positives + false positives); 0 if both counts are 0.
// Shapes:   predictions, probabilities, and labels [batch, …] -> a float scalar, or a vector with
//           one element per threshold if there are several.
// Dtypes:   predictions half, bfloat16, float, double; labels of any numeric dtype or bool, where
//           0 is negative and any other value positive.
// Errors:   InvalidArgument for other shapes, for thresholds outside [0, 1], and for a top_k or
//           class_id that does not fit the last dimension.
Metric Precision(const Scope& scope, Output predictions, Output labels,
                 const ThresholdOptions& options = {});

// true positives / (true positives + false negatives); 0 if both counts are 0. Shapes, dtypes and
// errors: as for Precision.
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
  double beta = 1;  // recall counts beta times as much as precision; above 0 and finite
  // Predictions above this threshold, in (0, 1], are positive. Without a threshold, the largest
  // prediction of each row is positive.
  std::optional<double> threshold = std::nullopt;
  Output sample_weight = {};  // [batch]
  std::string name = "fbeta_score";
};

// (1 + beta²) * precision * recall / (beta² * precision + recall) over all batches, a float.
// Shapes:   predictions and labels [batch, classes]; labels are 0 or 1, of any numeric dtype.
// Errors:   InvalidArgument for other shapes, and for a beta or threshold that is out of range.
Metric FBetaScore(const Scope& scope, Output predictions, Output labels,
                  const FBetaScoreOptions& options = {});

struct F1ScoreOptions {
  FScoreAverage average = FScoreAverage::kNone;
  std::optional<double> threshold = std::nullopt;
  Output sample_weight = {};  // [batch]
  std::string name = "f1_score";
};

// FBetaScore with beta = 1.
Metric F1Score(const Scope& scope, Output predictions, Output labels,
               const F1ScoreOptions& options = {});

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_PRECISION_RECALL_H_
