// SPDX-License-Identifier: Apache-2.0
//
// TrainLoop: runs a training step over the epochs of a dataset, shows progress, and stops at a loss
// that is not finite.
#ifndef MIRRORFLOW_TRAIN_LOOP_H_
#define MIRRORFLOW_TRAIN_LOOP_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "distribute/strategy/strategy.h"
#include "train/dataset.h"
#include "train/progress.h"

namespace mirrorflow {

struct TrainLoopOptions {
  int64_t epochs = 1;
  // Stop after as many steps, whatever `epochs` says; 0: do not.
  int64_t steps = 0;
  // Called after each step with its number, from 1, and its loss; an error ends the loop.
  std::function<absl::Status(int64_t step, float loss)> on_step = nullptr;
};

struct TrainResult {
  int64_t steps = 0;
  double loss = 0;            // the mean over the steps of the last epoch
  double median_step_ms = 0;  // the first step left out, as it compiles
  double median_host_us = 0;  // of it, to enqueue the work; 0 where the host computes itself
  double examples_per_s = 0;  // of all replicas, from the median step
};

// `step` must take the components of the dataset's batches as feeds, and its first fetch must be
// the loss, a float scalar; InvalidArgument after its first Run if it is not. The dataset must be
// batched. OutOfRange, naming the step, if the loss is not finite; what Minimize updates has not
// changed in that step.
absl::StatusOr<TrainResult> TrainLoop(const Strategy& strategy, Step step, const Dataset& dataset,
                                      Progress& progress, const TrainLoopOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LOOP_H_
