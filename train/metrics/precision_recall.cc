// SPDX-License-Identifier: Apache-2.0
#include "train/metrics/precision_recall.h"

#include "absl/strings/str_cat.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/gather.h"
#include "ops/one_hot.h"
#include "ops/reduction.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "ops/top_k.h"
#include "ops/unary.h"
#include "train/losses/reductions.h"
#include "train/metrics/accumulate.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace metrics {
namespace {

constexpr double kBelowAll = -1e10;  // Keras' NEG_INF

std::vector<double> ThresholdsOf(const ThresholdOptions& options) {
  if (!options.thresholds.empty()) return options.thresholds;
  return {options.top_k.has_value() ? kBelowAll : 0.5};
}

bool CheckOptions(const Scope& s, absl::string_view what, const Shape& shape,
                  const ThresholdOptions& options) {
  for (const double threshold : options.thresholds) {
    if (threshold >= 0 && threshold <= 1) continue;
    FailLoss(s, what, "thresholds out of range; expected 0 to 1, got ", threshold);
    return false;
  }
  if (!options.top_k.has_value() && !options.class_id.has_value()) return true;
  const int64_t classes = shape.rank() < 2 ? 0 : shape.dim(shape.rank() - 1);
  const int64_t k = options.top_k.value_or(1), id = options.class_id.value_or(0);
  if (k >= 1 && k <= classes && id >= 0 && id < classes) return true;
  FailLoss(s, what,
           "top_k or class_id does not fit the predictions; expected a known last dimension, at "
           "least top_k and above class_id, for ",
           k, " and ", id, ", got ", shape.ToString());
  return false;
}

// Returns for each prediction whether it is among the k largest of its row.
Output IsInTopK(const Scope& s, Output predictions, int64_t k) {
  const Shape shape = s.shape(predictions);
  const auto classes = static_cast<double>(shape.dim(shape.rank() - 1));
  const Output chosen =
      ops::OneHot(s, ops::TopKV2(s, predictions, k).indices, ops::ScalarConst(s, DT_INT32, classes),
                  ops::ScalarConst(s, DT_INT32, 1), ops::ScalarConst(s, DT_INT32, 0));
  return ops::Cast(s, ops::Max(s, chosen, {-2}), DT_BOOL);
}

Output AtClass(const Scope& s, Output x, int64_t id) {
  return ops::GatherV2(s, x, ops::VectorConst(s, {id}), ops::ScalarConst(s, DT_INT32, -1));
}

// Builds the metric true positives / (true positives + others). For precision, the others are the
// negatives above the threshold; for recall, the positives that are not above it.
Metric TruePositiveFraction(const Scope& s, absl::string_view what, Output predictions,
                            Output labels, const ThresholdOptions& options, bool is_precision) {
  if (!CheckEqualShapes(s, what, predictions, labels, 1)) return {};
  if (!CheckOptions(s, what, s.shape(predictions), options)) return {};
  const DataType dtype = predictions.dtype();
  Output is_positive = AsType(s, labels, DT_BOOL);
  NanSources sources = {.values = {predictions, labels}};
  if (options.top_k.has_value()) {
    predictions = ops::SelectV2(s, IsInTopK(s, predictions, *options.top_k), predictions,
                                ops::ScalarConst(s, dtype, kBelowAll));
  }
  if (options.class_id.has_value()) {
    predictions = AtClass(s, predictions, *options.class_id);
    is_positive = AtClass(s, is_positive, *options.class_id);
    // With top_k, check the predictions of all classes, because they determine the k largest.
    if (!options.top_k.has_value()) sources.values[0] = predictions;
    sources.values[1] = AtClass(s, labels, *options.class_id);
  }
  const Weighted weighted =
      ApplyWeights(s, what, ops::Cast(s, is_positive, DT_DOUBLE), options.sample_weight);
  if (!weighted.values.valid()) return {};
  sources.weights = weighted.weights;

  // Rows are thresholds, and columns are predictions.
  const std::vector<double> thresholds = ThresholdsOf(options);
  const auto count = static_cast<int64_t>(thresholds.size());
  const Output limits = ops::Reshape(
      s, ops::Cast(s, ops::Const(s, Tensor::Vector<double>(thresholds)), dtype), Shape({count, 1}));
  const auto row = [&](Output x) { return ops::Reshape(s, x, Shape({1, kUnknownDim})); };
  const Output above = ops::Cast(s, ops::Greater(s, row(predictions), limits), DT_DOUBLE);
  const Output positives = row(weighted.values), weights = row(weighted.weights);
  const Output all =
      is_precision ? ops::Mul(s, above, weights) : ops::Mul(s, ops::OnesLike(s, above), positives);
  const Output hits = ops::Mul(s, above, positives);
  return Accumulate(s,
                    {{"true_positives", ops::Sum(s, hits, {1})},
                     {is_precision ? "false_positives" : "false_negatives",
                      ops::Sum(s, ops::Sub(s, all, hits), {1})}},
                    sources, [&](const Scope& s, absl::Span<const Output> totals) {
                      const Output share =
                          ops::DivNoNan(s, totals[0], ops::AddV2(s, totals[0], totals[1]));
                      const Output result = ops::Cast(s, share, DT_FLOAT);
                      return count == 1 ? ops::Reshape(s, result, Shape({})) : result;
                    });
}

constexpr double kEpsilon = 1e-7;  // Keras' backend.epsilon()

Output Number(const Scope& s, double value) { return ops::ScalarConst(s, DT_DOUBLE, value); }

// Returns x / (y + epsilon).
Output Divide(const Scope& s, Output x, Output y) {
  return ops::RealDiv(s, x, ops::AddV2(s, y, Number(s, kEpsilon)));
}

bool CheckOptions(const Scope& s, const Shape& shape, const FBetaScoreOptions& options) {
  std::string why;
  if (shape.unknown_rank() || shape.rank() != 2 || shape.dim(1) < 1) {
    why = absl::StrCat("expected predictions [batch, classes] with a known last dimension, got ",
                       shape.ToString());
  }
  if (!why.empty()) {
    FailLoss(s, options.name, why);
    return false;
  }
  constexpr NumberRange kThreshold = {.min = 0, .max = 1, .without_min = true};
  return CheckNumbers(s, options.name,
                      {{"beta", options.beta, kPositive},
                       {"threshold", options.threshold.value_or(0.5), kThreshold}});
}

// Returns 1 where the prediction is positive, otherwise 0. A row of zeros has no positive
// prediction.
Output Positives(const Scope& s, Output predictions, std::optional<double> threshold) {
  const DataType dtype = predictions.dtype();
  if (threshold.has_value()) {
    const Output limit = ops::ScalarConst(s, dtype, *threshold);
    return ops::Cast(s, ops::Greater(s, predictions, limit), DT_DOUBLE);
  }
  const Output largest = ops::Max(s, predictions, {-1}, {.keep_dims = true});
  const Output is_zero =
      ops::LessEqual(s, ops::Abs(s, predictions), ops::ScalarConst(s, dtype, 1e-9));
  return ops::Cast(
      s,
      ops::LogicalAnd(s, ops::GreaterEqual(s, predictions, largest), ops::LogicalNot(s, is_zero)),
      DT_DOUBLE);
}

// Returns the score. `totals` holds true positives, false positives, false negatives and labels.
Output Score(const Scope& s, absl::Span<const Output> totals, const FBetaScoreOptions& options) {
  const Output precision = Divide(s, totals[0], ops::AddV2(s, totals[0], totals[1]));
  const Output recall = Divide(s, totals[0], ops::AddV2(s, totals[0], totals[2]));
  const double square = options.beta * options.beta;
  const Output sum = ops::AddV2(s, ops::Mul(s, precision, Number(s, square)), recall);
  Output score = ops::Mul(s, Divide(s, ops::Mul(s, precision, recall), sum), Number(s, 1 + square));
  if (options.average == FScoreAverage::kWeighted) {
    const Output weights = Divide(s, totals[3], ops::Sum(s, totals[3], {0}));
    score = ops::Sum(s, ops::Mul(s, score, weights), {0});
  } else if (options.average == FScoreAverage::kMacro) {
    score = ops::Mean(s, score, {0});
  }
  return ops::Cast(s, score, DT_FLOAT);
}

}  // namespace

Metric Precision(const Scope& scope, Output predictions, Output labels,
                 const ThresholdOptions& options) {
  const Scope s = MetricScope(scope, options.name, "precision");
  return TruePositiveFraction(s, "precision", predictions, labels, options, true);
}

Metric Recall(const Scope& scope, Output predictions, Output labels,
              const ThresholdOptions& options) {
  const Scope s = MetricScope(scope, options.name, "recall");
  return TruePositiveFraction(s, "recall", predictions, labels, options, false);
}

Metric FBetaScore(const Scope& scope, Output predictions, Output labels,
                  const FBetaScoreOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!CheckEqualShapes(s, options.name, predictions, labels)) return {};
  if (!CheckOptions(s, s.shape(predictions), options)) return {};
  const Output predicted = Positives(s, predictions, options.threshold);
  const Weighted all = ApplyWeights(s, options.name, predicted, options.sample_weight);
  const Weighted actual = ApplyWeights(s, options.name, labels, options.sample_weight);
  if (!all.values.valid() || !actual.values.valid()) return {};
  const Output hits = ops::Mul(s, predicted, actual.values);
  const bool is_micro = options.average == FScoreAverage::kMicro;
  const auto sum = [&](Output x) { return is_micro ? ops::Sum(s, x) : ops::Sum(s, x, {0}); };
  return Accumulate(
      s,
      {{"true_positives", sum(hits)},
       {"false_positives", sum(ops::Sub(s, all.values, hits))},
       {"false_negatives", sum(ops::Sub(s, actual.values, hits))},
       {"intermediate_weights", sum(actual.values)}},
      {.values = {predictions, labels}, .weights = all.weights},
      [&](const Scope& s, absl::Span<const Output> totals) { return Score(s, totals, options); });
}

Metric F1Score(const Scope& scope, Output predictions, Output labels,
               const F1ScoreOptions& options) {
  return FBetaScore(scope, predictions, labels,
                    {.average = options.average,
                     .threshold = options.threshold,
                     .sample_weight = options.sample_weight,
                     .name = options.name});
}

}  // namespace metrics
}  // namespace mirrorflow
