// SPDX-License-Identifier: Apache-2.0
//
// Metric: a value that covers many batches. The state consists of sums in double precision, which
// count exactly up to 2^53. They are variables that are synchronised on read: an update needs no
// communication, and the result covers the rows of all replicas and workers, however the batches
// were split. Create metrics where you create variables, inside the strategy's scope().
//
// NaN: a single NaN in a prediction, a label or a weight makes the whole result NaN until the
// metric is reset. A NaN is never skipped, or counted as a class, as negative or as wrong. Only
// examples that do not count (with weight 0, or with an ignored label) can hold arbitrary values,
// so a mask also hides what a model computes for padding.
#ifndef MIRRORFLOW_TRAIN_METRICS_METRIC_H_
#define MIRRORFLOW_TRAIN_METRICS_METRIC_H_

#include <string>

#include "framework/graph/scope.h"

namespace mirrorflow {
namespace metrics {

struct Metric {
  Operation update;       // adds the step's batch
  Output result;          // the value before this step's batch; needs no feeds
  Output updated_result;  // the value including this step's batch; running it runs the update
  Operation reset;        // discards all batches
};

// The options of metrics that have no other options. All metrics have these two.
struct MetricOptions {
  // A factor for each example. Has the shape of the values or of their leading dimensions; any
  // dimension can be 1 instead. Any numeric dtype.
  Output sample_weight = {};
  std::string name = "";  // empty: the metric's own name, such as `mean`
};

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_METRIC_H_
