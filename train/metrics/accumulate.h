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

// A sum over all batches, and the addend of one batch: DT_DOUBLE, of known shape.
struct BatchSum {
  std::string name;
  Output of_batch;
};

// Values that a metric only compares, casts or selects from, so that a NaN does not reach the sums.
struct NanSources {
  // They have the shape of the weights, or further dimensions. Integers have no NaN.
  std::vector<Output> values = {};
  Output weights = {};  // of the examples; 0: the values may be anything
};

// Builds a metric that is a function of sums, in `scope`, which has the metric's name. Owns the
// rule for NaN (metric.h): the result is NaN after a NaN in a sum, or in a source that has a
// weight.
Metric Accumulate(const Scope& scope, const std::vector<BatchSum>& sums, const NanSources& sources,
                  absl::FunctionRef<Output(const Scope&, absl::Span<const Output> totals)> result);

// The scope of a metric, called `name` or else `own_name`.
Scope MetricScope(const Scope& scope, const std::string& name, absl::string_view own_name);

// Values as doubles times their weights, if there are any; and the weight of each value. A weight
// of 0 makes any value 0, NaN and infinity too.
struct Weighted {
  Output values;
  Output weights;  // of the shape of the values
};
Weighted ApplyWeights(const Scope& scope, absl::string_view what, Output values,
                      Output sample_weight);

// Sum of weighted values / sum of weights, a float; 0 before the first value. `compared` are the
// sources of NaN that the values do not show. The metric's scope is the caller's.
Metric WeightedMean(const Scope& scope, absl::string_view what, Output values, Output sample_weight,
                    const std::vector<Output>& compared = {});

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_ACCUMULATE_H_
