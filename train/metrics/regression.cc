// SPDX-License-Identifier: Apache-2.0
#include "train/metrics/regression.h"

#include "ops/unary.h"
#include "train/losses/regression.h"
#include "train/metrics/accumulate.h"

namespace mirrorflow {
namespace metrics {
namespace {

using Loss = Output (*)(const Scope&, Output, Output, const losses::LossOptions&);

Output LossesOf(const Scope& s, Loss loss, Output predictions, Output labels) {
  return loss(s, predictions, labels, {.reduction = LossReduction::kNone});
}

// Builds a metric that is the mean of a loss.
Metric MeanOf(const Scope& scope, absl::string_view what, Loss loss, Output predictions,
              Output labels, const MetricOptions& options) {
  const Scope s = MetricScope(scope, options.name, what);
  return WeightedMean(s, what, LossesOf(s, loss, predictions, labels), options.sample_weight);
}

}  // namespace

Metric MeanSquaredError(const Scope& scope, Output predictions, Output labels,
                        const MetricOptions& options) {
  return MeanOf(scope, "mean_squared_error", losses::MeanSquaredError, predictions, labels,
                options);
}

Metric RootMeanSquaredError(const Scope& scope, Output predictions, Output labels,
                            const MetricOptions& options) {
  constexpr absl::string_view kWhat = "root_mean_squared_error";
  const Scope s = MetricScope(scope, options.name, kWhat);
  Metric metric = WeightedMean(s, kWhat, LossesOf(s, losses::MeanSquaredError, predictions, labels),
                               options.sample_weight);
  if (!metric.result.valid()) return {};
  metric.result = ops::Sqrt(s, metric.result);
  metric.updated_result = ops::Sqrt(s, metric.updated_result);
  return metric;
}

Metric MeanAbsoluteError(const Scope& scope, Output predictions, Output labels,
                         const MetricOptions& options) {
  return MeanOf(scope, "mean_absolute_error", losses::MeanAbsoluteError, predictions, labels,
                options);
}

Metric MeanAbsolutePercentageError(const Scope& scope, Output predictions, Output labels,
                                   const MetricOptions& options) {
  return MeanOf(scope, "mean_absolute_percentage_error", losses::MeanAbsolutePercentageError,
                predictions, labels, options);
}

Metric MeanSquaredLogarithmicError(const Scope& scope, Output predictions, Output labels,
                                   const MetricOptions& options) {
  return MeanOf(scope, "mean_squared_logarithmic_error", losses::MeanSquaredLogarithmicError,
                predictions, labels, options);
}

Metric CosineSimilarity(const Scope& scope, Output predictions, Output labels,
                        const MetricOptions& options) {
  constexpr absl::string_view kWhat = "cosine_similarity";
  const Scope s = MetricScope(scope, options.name, kWhat);
  const Output losses = LossesOf(s, losses::CosineSimilarity, predictions, labels);
  if (!losses.valid()) return {};
  return WeightedMean(s, kWhat, ops::Neg(s, losses), options.sample_weight);
}

}  // namespace metrics
}  // namespace mirrorflow
