// SPDX-License-Identifier: Apache-2.0
//
// Gradients that are added up over several steps and applied in the last of them, as those of one
// large batch (MinimizeOptions::accumulate_steps).
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_GRADIENT_ACCUMULATION_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_GRADIENT_ACCUMULATION_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "framework/graph/scope.h"
#include "train/optimizers/variable_update.h"

namespace mirrorflow {

struct AccumulatedGradients {
  // The means over the batches of these steps, equal on all replicas; 0 if the step is not the
  // last.
  std::vector<GradientAndVariable> gradients;
  Output is_last;  // a bool scalar
  // The step is the last one, and the mean of the losses is finite.
  Output gate;
  // Writes of the accumulators. Every step must run them.
  std::vector<Operation> updates;
};

// Accumulates over `steps` steps the gradients of `loss`, the mean over the rows of a batch.
// `weight` is the number of the batch's rows, a scalar that is equal on all replicas:
//   mean gradient = sum of weight * gradient / sum of weight
// Each replica adds up its own parts of the sums. They are reduced in the last step only, so the
// other steps need no communication for them. `may_overflow`: the loss is scaled.
AccumulatedGradients AccumulateGradients(const Scope& scope,
                                         absl::Span<const GradientAndVariable> gradients,
                                         Output loss, Output weight, int64_t steps,
                                         bool may_overflow);

// The number of rows of the batch from which `loss` is computed: dimension 0 of the first
// placeholder for which it is unknown when the graph is built. An int64 scalar; 1 if there is no
// such placeholder.
Output RowsOfBatch(const Scope& scope, Output loss);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_GRADIENT_ACCUMULATION_H_
