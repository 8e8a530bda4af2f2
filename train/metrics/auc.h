// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_METRICS_AUC_H_
#define MIRRORFLOW_TRAIN_METRICS_AUC_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"
#include "train/metrics/metric.h"

namespace mirrorflow {
namespace metrics {

enum class Curve {
  kRoc,  // recall against the false positive rate
  kPr,   // precision against recall
};

// The height that the curve is assumed to have between two thresholds.
enum class Summation {
  kInterpolation,  // the mean of both ends; for kPr, Davis and Goadrich's formula
  kMinoring,       // the smaller end
  kMajoring,       // the larger end
};

struct AUCOptions {
  int64_t num_thresholds = 200;  // evenly spaced in [0, 1]; at least 2
  Curve curve = Curve::kRoc;
  Summation summation_method = Summation::kInterpolation;
  bool from_logits = false;  // whether predictions are logits instead of probabilities
  Output sample_weight = {};
  std::string name = "auc";
};

// The area under a curve over all batches, a float. The state consists of two histograms of the
// predictions, for positive and for negative labels, so an update takes time proportional to the
// batch size.
// Shapes:   predictions (probabilities or logits) and labels [batch, …].
// Dtypes:   predictions half, bfloat16, float, double; labels of any numeric dtype or bool. A label
//           of 0 is negative; any other label is positive.
// Errors:   InvalidArgument if the shapes differ, and for fewer than two thresholds.
// Source:   Davis and Goadrich, "The relationship between precision-recall and ROC curves", 2006.
Metric AUC(const Scope& scope, Output predictions, Output labels, const AUCOptions& options = {});

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_AUC_H_
