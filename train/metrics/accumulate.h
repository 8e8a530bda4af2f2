// SPDX-License-Identifier: Apache-2.0
//
// Builds metrics that are functions of sums over all batches.
#ifndef MIRRORFLOW_TRAIN_METRICS_ACCUMULATE_H_
#define MIRRORFLOW_TRAIN_METRICS_ACCUMULATE_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "train/metrics/metric.h"

namespace mirrorflow {
namespace metrics {

// A sum over all batches. `of_batch` is what one batch adds: DT_DOUBLE, with a known shape.
struct BatchSum {
  std::string name;
  Output of_batch;
};

// Values that a metric only compares or casts, or that only select other values. A NaN in them
// would not appear in the sums, so Accumulate checks them.
struct NanSources {
  // Values with the shape of the weights, possibly with additional dimensions. Integers have no
  // NaN.
  std::vector<Output> values = {};
  Output weights = {};  // example weights; where they are 0, NaN in the values is ignored
};

// Builds a metric that is a function of sums. `scope` must be named after the metric. Implements
// the NaN rule (metric.h): the result is NaN after a NaN in a sum, or after a NaN with a weight
// other than 0 in one of the `sources`.
Metric Accumulate(const Scope& scope, const std::vector<BatchSum>& sums, const NanSources& sources,
                  absl::FunctionRef<Output(const Scope&, absl::Span<const Output> totals)> result);

// Returns a metric's scope, which is named `name` or, if `name` is empty, `own_name`.
Scope MetricScope(const Scope& scope, const std::string& name, absl::string_view own_name);

// Values, as doubles, multiplied by their weights; and the weight of each value (1 without sample
// weights). A weight of 0 turns any value into 0, even NaN and infinity.
struct Weighted {
  Output values;
  Output weights;  // has the shape of `values`
};
Weighted ApplyWeights(const Scope& scope, absl::string_view what, Output values,
                      Output sample_weight);

// Builds a metric for sum(values * weights) / sum(weights), a float; 0 before the first value.
// `compared` has the values that `values` is computed from by comparisons; a NaN in them does not
// appear in `values`, but also makes the result NaN. `scope` is the metric's own scope.
Metric WeightedMean(const Scope& scope, absl::string_view what, Output values, Output sample_weight,
                    const std::vector<Output>& compared = {});

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_ACCUMULATE_H_
