// SPDX-License-Identifier: Apache-2.0
//
// Builds metrics from sums over all batches.
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

// A sum over all batches. `of_batch` is what one batch adds: DT_DOUBLE, of known shape.
struct BatchSum {
  std::string name;
  Output of_batch;
};

// Values that a metric only compares, casts or selects by, so that a NaN in them does not reach the
// sums.
struct NanSources {
  // Have the shape of the weights, possibly with more dimensions. Integers have no NaN.
  std::vector<Output> values = {};
  Output weights = {};  // of the examples; 0: ignore NaN in the values
};

// Builds a metric that is a function of sums, in `scope`, which is named after the metric.
// Implements the NaN rule (metric.h): the result is NaN after a NaN in a sum, or in a source whose
// weight is not 0.
Metric Accumulate(const Scope& scope, const std::vector<BatchSum>& sums, const NanSources& sources,
                  absl::FunctionRef<Output(const Scope&, absl::Span<const Output> totals)> result);

// Returns the scope of a metric, named `name` or, if that is empty, `own_name`.
Scope MetricScope(const Scope& scope, const std::string& name, absl::string_view own_name);

// Values, as doubles, times their weights; and the weight of each value (1 without sample weights).
// A weight of 0 turns any value into 0, even NaN and infinity.
struct Weighted {
  Output values;
  Output weights;  // of the shape of the values
};
Weighted ApplyWeights(const Scope& scope, absl::string_view what, Output values,
                      Output sample_weight);

// sum(values * weights) / sum(weights), a float; 0 before the first value. `compared` holds NaN
// sources that do not show in `values`. The caller provides the metric's scope.
Metric WeightedMean(const Scope& scope, absl::string_view what, Output values, Output sample_weight,
                    const std::vector<Output>& compared = {});

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_ACCUMULATE_H_
