// SPDX-License-Identifier: Apache-2.0
//
// Gradient accumulation: adds up the gradients of several steps and applies them in the last one,
// like the gradient of one large batch (MinimizeOptions::accumulate_steps).
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_GRADIENT_ACCUMULATION_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_GRADIENT_ACCUMULATION_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "train/optimizers/variable_update.h"

namespace mirrorflow {

struct AccumulatedGradients {
  // Means over the batches of all accumulated steps, equal on all replicas. 0 unless `is_last`.
  std::vector<GradientAndVariable> gradients;
  Output is_last;  // a bool scalar
  // `is_last`, and the mean of the losses is finite.
  Output gate;
  // The writes to the accumulators. Every step must run them.
  std::vector<Operation> updates;
};

// Accumulates the gradients of `loss`, the mean over the rows of a batch, over `steps` steps.
// `weight` is the batch's row count, a scalar that is equal on all replicas:
//   mean gradient = sum of weight * gradient / sum of weight
// Each replica adds up its own parts of the sums. Only the last step reduces them, so the other
// steps need no communication for them. `may_overflow`: the loss is scaled (loss_scale.h).
AccumulatedGradients AccumulateGradients(const Scope& scope,
                                         absl::Span<const GradientAndVariable> gradients,
                                         Output loss, Output weight, int64_t steps,
                                         bool may_overflow);

// Returns the row count of the batch that `loss` is computed from: dimension 0 of the first
// placeholder whose dimension 0 is unknown when the graph is built. An int64 scalar; 1 without such
// a placeholder.
Output RowsOfBatch(const Scope& scope, Output loss);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_GRADIENT_ACCUMULATION_H_
