// SPDX-License-Identifier: Apache-2.0
//
// Metric: a value over many batches. Its state is a few sums in double precision, which count
// exactly up to 2^53. They are variables synchronised on read: an update needs no communication,
// and the result covers the rows of all replicas and workers, however the batches were split.
// Create metrics where you create variables, inside the strategy's scope().
//
// NaN: one NaN in a prediction, a label or a weight makes the whole result NaN until the metric is
// reset. It is never counted as a class, as negative or as wrong, nor skipped. Only examples that
// do not count (their weight is 0, or their label is ignored) may hold any values, so a mask also
// covers what a model computes for padding.
#ifndef MIRRORFLOW_TRAIN_METRICS_METRIC_H_
#define MIRRORFLOW_TRAIN_METRICS_METRIC_H_

#include <string>

#include "framework/graph/scope.h"

namespace mirrorflow {
namespace metrics {

struct Metric {
  Operation update;       // adds the batch that the step feeds
  Output result;          // the value before the batch of this step; needs no feeds
  Output updated_result;  // the value including that batch; running it runs the update
  Operation reset;        // discards all batches
};

// The options of a metric without parameters. All other metrics also have these options.
struct MetricOptions {
  // A factor for each example. Has the shape of the values or their leading dimensions; a dimension
  // may also be 1. Any numeric dtype.
  Output sample_weight = {};
  std::string name = "";  // empty: the metric's own name, such as `mean`
};

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_METRIC_H_
