// SPDX-License-Identifier: Apache-2.0
#include "train/metrics/mean.h"

#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/select.h"
#include "ops/unary.h"
#include "train/losses/classification.h"
#include "train/losses/reductions.h"
#include "train/metrics/accumulate.h"

namespace mirrorflow {
namespace metrics {

Metric Mean(const Scope& scope, Output values, const MetricOptions& options) {
  const Scope s = MetricScope(scope, options.name, "mean");
  return WeightedMean(s, "mean", values, options.sample_weight);
}

Metric Sum(const Scope& scope, Output values, const MetricOptions& options) {
  const Scope s = MetricScope(scope, options.name, "sum");
  const Weighted weighted = ApplyWeights(s, "sum", values, options.sample_weight);
  if (!weighted.values.valid()) return {};
  return Accumulate(s, {{"total", ops::Sum(s, weighted.values)}}, {},
                    [](const Scope& s, absl::Span<const Output> totals) {
                      return ops::Cast(s, totals[0], DT_FLOAT);
                    });
}

Metric Perplexity(const Scope& scope, Output logits, Output labels,
                  const PerplexityOptions& options) {
  const Scope s = scope.SubScope(options.name);
  const Output losses = losses::SparseSoftmaxCrossEntropy(
      s, logits, labels,
      {.ignore_class = options.mask_token_id, .reduction = LossReduction::kNone});
  if (!losses.valid()) return {};
  const Weighted weighted = ApplyWeights(s, "perplexity", losses, options.sample_weight);
  if (!weighted.values.valid()) return {};
  Output weights = weighted.weights;
  if (options.mask_token_id.has_value()) {
    const Output mask =
        ops::ScalarConst(s, labels.dtype(), static_cast<double>(*options.mask_token_id));
    weights = ops::Mul(s, weights, ops::Cast(s, ops::NotEqual(s, labels, mask), DT_DOUBLE));
  }
  return Accumulate(s,
                    {{"aggregate_crossentropy", ops::Sum(s, weighted.values)},
                     {"number_of_samples", ops::Sum(s, weights)}},
                    {}, [](const Scope& s, absl::Span<const Output> totals) {
                      const Output zero = ops::ScalarConst(s, DT_DOUBLE, 0);
                      const Output perplexity = ops::Exp(s, ops::DivNoNan(s, totals[0], totals[1]));
                      const Output empty = ops::Equal(s, totals[1], zero);
                      return ops::Cast(s, ops::SelectV2(s, empty, zero, perplexity), DT_FLOAT);
                    });
}

}  // namespace metrics
}  // namespace mirrorflow
