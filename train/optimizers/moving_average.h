// SPDX-License-Identifier: Apache-2.0
//
// Moving averages of the variables that an optimizer updates (Polyak averaging). A model often
// predicts better with the averages than with the final values. MinimizeOptions::use_ema maintains
// them:
//
//   train = Adam().Minimize(scope, loss, {.use_ema = true, .ema_momentum = 0.999});
//   // Predictions that are computed with the averages:
//   predictions = WithMovingAverages(scope, ForInference(scope, logits));
//   // An operation to run after the last training step, before the model is saved:
//   finalize = FinalizeVariableValues(scope);
//
// The average of variable `w` is the variable `train/w/average`, which checkpoints contain.
// Source: Keras' use_ema, ema_momentum and ema_overwrite_frequency.
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_MOVING_AVERAGE_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_MOVING_AVERAGE_H_

#include <cstdint>

#include "framework/graph/scope.h"
#include "train/optimizers/variable_update.h"

namespace mirrorflow {

// Returns `output`, computed from the moving averages instead of the variables. Copies only the
// nodes that differ; the copies have names that begin with `averaged/`, and use the same inputs.
// Returns `output` itself if it depends on no variable with an average. Until the first update, the
// averages are 0.
Output WithMovingAverages(const Scope& scope, Output output);
// Does the same for an operation or a group of operations, such as a metric's update.
Operation WithMovingAverages(const Scope& scope, Operation operation);

// Returns an operation that assigns each variable its average (Keras' function of the same name).
// Variables without an average keep their values; before the first update, all variables do.
// Errors: InvalidArgument if no variable of the graph has an average.
Operation FinalizeVariableValues(const Scope& scope);

struct MovingAverageOptions {
  double momentum = 0.99;
  int64_t overwrite_frequency = 0;  // 0: never
};

// Adds the update of the variable's average to `update`, which must otherwise be complete.
// Optimizers call it.
// `step` is the number of updates before this one, an int64 scalar.
void AddMovingAverage(VariableUpdate& update, Output step, const MovingAverageOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_MOVING_AVERAGE_H_
