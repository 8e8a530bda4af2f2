// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_METRICS_F_SCORE_H_
#define MIRRORFLOW_TRAIN_METRICS_F_SCORE_H_

#include <optional>
#include <string>

#include "framework/graph/scope.h"
#include "train/metrics/metric.h"

namespace mirrorflow {
namespace metrics {

enum class FScoreAverage {
  kNone,      // a score for each class: [classes]
  kMicro,     // one score from the counts of all classes
  kMacro,     // the mean of the classes' scores
  kWeighted,  // their mean, weighted by the label count of each class
};

struct FBetaScoreOptions {
  FScoreAverage average = FScoreAverage::kNone;
  double beta = 1;  // the weight of recall against precision; above 0 and finite
  // A prediction above this threshold, in (0, 1], is positive. Without a threshold, the largest
  // prediction of each row is positive.
  std::optional<double> threshold = std::nullopt;
  Output sample_weight = {};  // [batch]
  std::string name = "fbeta_score";
};

// (1 + beta²) precision recall / (beta² precision + recall) over all batches, a float.
// Shapes:   predictions and labels [batch, classes]; labels are 0 or 1, of any numeric dtype.
// Errors:   InvalidArgument for other shapes, or a beta or threshold outside its range.
Metric FBetaScore(const Scope& scope, Output predictions, Output labels,
                  const FBetaScoreOptions& options = {});

struct F1ScoreOptions {
  FScoreAverage average = FScoreAverage::kNone;
  std::optional<double> threshold = std::nullopt;
  Output sample_weight = {};  // [batch]
  std::string name = "f1_score";
};

// FBetaScore with a beta of 1.
Metric F1Score(const Scope& scope, Output predictions, Output labels,
               const F1ScoreOptions& options = {});

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_F_SCORE_H_
