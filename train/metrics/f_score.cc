// SPDX-License-Identifier: Apache-2.0
#include "train/metrics/f_score.h"

#include "absl/strings/str_cat.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/unary.h"
#include "train/losses/reductions.h"
#include "train/metrics/accumulate.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace metrics {
namespace {

constexpr double kEpsilon = 1e-7;  // Keras' backend.epsilon()

Output Number(const Scope& s, double value) { return ops::ScalarConst(s, DT_DOUBLE, value); }

// x / (y + epsilon)
Output Divide(const Scope& s, Output x, Output y) {
  return ops::RealDiv(s, x, ops::AddV2(s, y, Number(s, kEpsilon)));
}

bool CheckOptions(const Scope& s, const Shape& shape, const FBetaScoreOptions& options) {
  std::string why;
  if (shape.unknown_rank() || shape.rank() != 2 || shape.dim(1) < 1) {
    why = absl::StrCat("expected predictions [batch, classes] whose last dimension is known, got ",
                       shape.ToString());
  }
  if (!why.empty()) {
    FailLoss(s, options.name, why);
    return false;
  }
  constexpr NumberRange kThreshold = {.least = 0, .most = 1, .without_least = true};
  return CheckNumbers(s, options.name,
                      {{"beta", options.beta, kPositive},
                       {"threshold", options.threshold.value_or(0.5), kThreshold}});
}

// 1 where the prediction is positive, else 0. A row of zeros has no positive one.
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

// The score of each class, from true positives, false positives, false negatives and labels.
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
