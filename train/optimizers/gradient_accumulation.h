// SPDX-License-Identifier: Apache-2.0
//
// Gradient accumulation: averages the gradients of several steps and applies the result in the last
// one, as if it came from one large batch (MinimizeOptions::accumulate_steps).
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_GRADIENT_ACCUMULATION_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_GRADIENT_ACCUMULATION_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "train/optimizers/variable_update.h"

namespace mirrorflow {

struct AccumulatedGradients {
  // Means over the batches of all accumulated steps, equal on all replicas. Zero unless `is_last`.
  std::vector<GradientAndVariable> gradients;
  Output is_last;  // a bool scalar
  // True if `is_last` is true and the mean loss is finite.
  Output gate;
  // The writes to the accumulators. Every step must run them.
  std::vector<Operation> updates;
};

// Accumulates the gradients of `loss`, the mean over the rows of a batch, over `steps` steps.
// `weight` is the batch's row count, a scalar that is equal on all replicas:
//   mean gradient = sum of weight * gradient / sum of weight
// Each replica adds up its own parts of the sums. Only the last step reduces the sums, so the other
// steps need no communication for them. Set `may_overflow` if the loss is scaled (loss_scale.h).
AccumulatedGradients AccumulateGradients(const Scope& scope,
                                         absl::Span<const GradientAndVariable> gradients,
                                         Output loss, Output weight, int64_t steps,
                                         bool may_overflow);

// Returns the row count of the batch that `loss` is computed from, an int64 scalar: dimension 0 of
// the loss's first placeholder whose dimension 0 is unknown when the graph is built. Returns 1 if
// no such placeholder exists.
Output RowsOfBatch(const Scope& scope, Output loss);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_GRADIENT_ACCUMULATION_H_
