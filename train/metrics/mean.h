// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_METRICS_MEAN_H_
#define MIRRORFLOW_TRAIN_METRICS_MEAN_H_

#include <cstdint>
#include <optional>
#include <string>

#include "framework/graph/scope.h"
#include "train/metrics/metric.h"

namespace mirrorflow {
namespace metrics {

// The mean of all values in all batches: sum(values * weights) / sum(weights), a float; 0 before
// the first value. A scalar, such as a loss, is one value per step.
// Shapes:   values of any shape; with sample_weight, their rank must be known.
// Errors:   InvalidArgument if the shape of sample_weight does not match (MetricOptions).
// Source:   Keras.
Metric Mean(const Scope& scope, Output values, const MetricOptions& options = {});

// sum(values * weights) over all batches, a float. Shapes and errors: as for Mean.
Metric Sum(const Scope& scope, Output values, const MetricOptions& options = {});

struct PerplexityOptions {
  std::optional<int64_t> mask_token_id = std::nullopt;  // labels that are not counted
  Output sample_weight = {};
  std::string name = "perplexity";
};

// exp(the mean cross entropy of all labels), a float; 0 before the first label.
// Shapes:   logits [batch, …, classes], labels [batch, …] (int32 or int64).
// Errors:   as for losses::SparseSoftmaxCrossEntropy.
// Source:   KerasHub's Perplexity with from_logits=True.
Metric Perplexity(const Scope& scope, Output logits, Output labels,
                  const PerplexityOptions& options = {});

}  // namespace metrics
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_METRICS_MEAN_H_
