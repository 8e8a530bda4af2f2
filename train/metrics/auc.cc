// SPDX-License-Identifier: Apache-2.0
#include "train/metrics/auc.h"

#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/clip_by_value.h"
#include "ops/constant.h"
#include "ops/cumulative.h"
#include "ops/gather.h"
#include "ops/reduction.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "ops/slice.h"
#include "ops/unary.h"
#include "train/losses/reductions.h"
#include "train/metrics/accumulate.h"

namespace mirrorflow {
namespace metrics {
namespace {

Output Number(const Scope& s, double value) { return ops::ScalarConst(s, DT_DOUBLE, value); }

// The values at both ends of each interval. Interval i lies between thresholds i and i + 1.
struct Ends {
  Output left, right;
};

Ends EndsOf(const Scope& s, Output x) {
  const int64_t intervals = s.shape(x).dim(0) - 1;
  const auto slice = [&](int64_t begin) {
    return ops::Slice(s, x, ops::VectorConst(s, {begin}), ops::VectorConst(s, {intervals}));
  };
  return {slice(0), slice(1)};
}

// Returns the interval of each prediction in [0, 1], which begins at the largest threshold that the
// prediction exceeds. A prediction of 0 is in the first interval.
Output Intervals(const Scope& s, Output predictions, int64_t num_thresholds) {
  const Output p = AsType(s, predictions, DT_FLOAT);
  const auto number = [&](double value) { return ops::ScalarConst(s, DT_FLOAT, value); };
  const Output clipped = ops::ClipByValue(s, p, number(0), number(1));
  const Output scaled = ops::Mul(s, clipped, number(static_cast<double>(num_thresholds - 1)));
  return ops::Cast(s, ops::Relu(s, ops::Sub(s, ops::Ceil(s, scaled), number(1))), DT_INT32);
}

// Returns the sum of the `weights` [N] in each interval.
Output Histogram(const Scope& s, Output weights, Output intervals, int64_t num_thresholds) {
  const Output size = ops::ScalarConst(s, DT_INT32, static_cast<double>(num_thresholds));
  return ops::UnsortedSegmentSum(s, weights, intervals, size);
}

// The counts of positives and negatives above each threshold, and in total.
struct Counts {
  Output true_positives, false_positives;
  Output positives, negatives;  // scalars
};

Counts CountsOf(const Scope& s, absl::Span<const Output> histograms) {
  return {ops::Cumsum(s, histograms[0], 0, {.reverse = true}),
          ops::Cumsum(s, histograms[1], 0, {.reverse = true}), ops::Sum(s, histograms[0], {0}),
          ops::Sum(s, histograms[1], {0})};
}

// Computes the area under the precision-recall curve. Within each interval, the true positive count
// is interpolated linearly in the count of predictions above the threshold; precision is the ratio
// of the two counts.
Output InterpolatedPrArea(const Scope& s, const Counts& counts) {
  const Ends hits = EndsOf(s, counts.true_positives);
  const Ends above = EndsOf(s, ops::AddV2(s, counts.true_positives, counts.false_positives));
  const Output change = ops::Sub(s, hits.left, hits.right);
  const Output slope = ops::DivNoNan(s, change, ops::Sub(s, above.left, above.right));
  const Output intercept = ops::Sub(s, hits.right, ops::Mul(s, slope, above.right));
  const Output is_safe = ops::LogicalAnd(s, ops::Greater(s, above.left, Number(s, 0)),
                                         ops::Greater(s, above.right, Number(s, 0)));
  const Output ratio =
      ops::SelectV2(s, is_safe, ops::DivNoNan(s, above.left, above.right), Number(s, 1));
  const Output area =
      ops::Mul(s, slope, ops::AddV2(s, change, ops::Mul(s, intercept, ops::Log(s, ratio))));
  return ops::Sum(s, ops::DivNoNan(s, area, counts.positives), {0});
}

Output Area(const Scope& s, const Counts& counts, const AUCOptions& options) {
  const bool is_roc = options.curve == Curve::kRoc;
  if (!is_roc && options.summation_method == Summation::kInterpolation) {
    return InterpolatedPrArea(s, counts);
  }
  const Output recall = ops::DivNoNan(s, counts.true_positives, counts.positives);
  const Output above = ops::AddV2(s, counts.true_positives, counts.false_positives);
  const Ends x =
      EndsOf(s, is_roc ? ops::DivNoNan(s, counts.false_positives, counts.negatives) : recall);
  const Ends y = EndsOf(s, is_roc ? recall : ops::DivNoNan(s, counts.true_positives, above));
  Output height;
  switch (options.summation_method) {
    case Summation::kInterpolation:
      height = ops::Mul(s, ops::AddV2(s, y.left, y.right), Number(s, 0.5));
      break;
    case Summation::kMinoring:
      height = ops::Minimum(s, y.left, y.right);
      break;
    case Summation::kMajoring:
      height = ops::Maximum(s, y.left, y.right);
      break;
  }
  return ops::Sum(s, ops::Mul(s, ops::Sub(s, x.left, x.right), height), {0});
}

}  // namespace

Metric AUC(const Scope& scope, Output predictions, Output labels, const AUCOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!CheckEqualShapes(s, "auc", predictions, labels, 1)) return {};
  if (options.num_thresholds < 2) {
    FailLoss(s, "auc", "expected at least two thresholds, got ", options.num_thresholds);
    return {};
  }
  if (options.from_logits) predictions = ops::Sigmoid(s, predictions);
  const Output is_positive = AsType(s, labels, DT_BOOL);
  const Weighted weighted =
      ApplyWeights(s, "auc", ops::Cast(s, is_positive, DT_DOUBLE), options.sample_weight);
  if (!weighted.values.valid()) return {};
  const NanSources sources = {.values = {predictions, labels}, .weights = weighted.weights};
  const auto flat = [&](Output x) { return ops::Reshape(s, x, Shape({kUnknownDim})); };
  const Output intervals = flat(Intervals(s, predictions, options.num_thresholds));
  const Output positives = flat(weighted.values);
  const Output negatives = ops::Sub(s, flat(weighted.weights), positives);
  return Accumulate(s,
                    {{"positives", Histogram(s, positives, intervals, options.num_thresholds)},
                     {"negatives", Histogram(s, negatives, intervals, options.num_thresholds)}},
                    sources, [&](const Scope& s, absl::Span<const Output> histograms) {
                      return ops::Cast(s, Area(s, CountsOf(s, histograms), options), DT_FLOAT);
                    });
}

}  // namespace metrics
}  // namespace mirrorflow
