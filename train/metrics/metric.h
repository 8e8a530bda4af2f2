// SPDX-License-Identifier: Apache-2.0
//
// Metric: a value that covers many batches. Its state consists of sums in double precision, which
// count exactly up to 2^53. Each replica adds to its own copy of the sums, without communication;
// reading the result adds up the copies of all replicas and workers
// (VariableSynchronization::kOnRead in train/variable.h). The result therefore does not depend on
// how the batches were split. Create metrics where you create variables, while the strategy's
// scope() exists. metrics.h has an example.
//
// Errors: a metric that cannot be built records its error in the graph, returns a Metric with
// invalid members, and makes Strategy::NewSession fail, like a layer (train/layers/layers.h).
//
// NaN: a single NaN in a prediction, a label or a weight makes the whole result NaN until the
// metric is reset. A NaN is never skipped, and never treated as a class, as negative or as wrong.
// Only examples that do not count (with weight 0, or with an ignored label) can have arbitrary
// values, so a mask also hides what a model computes for padding.
#ifndef MIRRORFLOW_TRAIN_METRICS_METRIC_H_
#define MIRRORFLOW_TRAIN_METRICS_METRIC_H_

#include <string>

#include "framework/graph/scope.h"

namespace mirrorflow {
namespace metrics {

struct Metric {
  Operation update;  // adds the step's batch
  Output result;     // the value for all batches added before this step; needs no feeds
  // The value including this step's batch. Fetching it also runs the update.
  Output updated_result;
  Operation reset;  // discards all batches
};

// The options of metrics that have no other options. All metrics have these two.
struct MetricOptions {
  // A factor for each example, of any numeric dtype. Its shape is that of the values or of their
  // leading dimensions; any dimension can be 1 instead. Invalid: all factors are 1.
  Output sample_weight = {};
  std::string name = "";  // empty: the metric's own name, such as `mean`
};

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_METRIC_H_
