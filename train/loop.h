// SPDX-License-Identifier: Apache-2.0
//
// TrainLoop: runs a training step over the epochs of a dataset, shows progress, and stops at a loss
// that is not finite or when replicas differ.
#ifndef MIRRORFLOW_TRAIN_LOOP_H_
#define MIRRORFLOW_TRAIN_LOOP_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "distribute/strategy/strategy.h"
#include "framework/session/session.h"
#include "train/checkpoint/checkpoint_manager.h"
#include "train/dataset.h"
#include "train/preemption.h"
#include "train/progress.h"

namespace mirrorflow {

struct TrainLoopOptions {
  int64_t epochs = 1;
  // Stop after this many steps, regardless of `epochs`; those before `start` count. 0: no limit.
  int64_t steps = 0;
  // Where training goes on: what CheckpointManager::Restore has returned.
  TrainingPosition start = {};
  // Saves a checkpoint every `checkpoint_every` steps (0: never) and after the last one. May be
  // null; else it must outlive the loop.
  CheckpointManager* checkpoints = nullptr;
  int64_t checkpoint_every = 0;
  // Compares the copies of all variables after every `check_replicas` steps (0: never), by
  // Session::CheckReplicas on `session`, which is that of the step. A difference ends training.
  int64_t check_replicas = 0;
  Session* session = nullptr;
  // Stops all workers after the same step when one of them is asked to end. May be null; else it
  // must outlive the loop.
  PreemptionHandler* preemption = nullptr;
  // Called after each step with its number, from 1, and its loss; an error ends the loop.
  std::function<absl::Status(int64_t step, float loss)> on_step = nullptr;
};

struct TrainResult {
  int64_t steps = 0;              // including those before `start`
  double loss = 0;                // the mean over the steps of the last epoch
  double median_step_ms = 0;      // without the first step, which compiles
  double median_host_us = 0;      // time to enqueue a step; 0 on devices that run on the host
  double examples_per_s = 0;      // of all replicas, at the median step time
  std::optional<int> stopped_by;  // the signal that ended training early
};

// `step` must take the components of the dataset's batches as feeds, and its first fetch must be
// the loss, a float scalar; otherwise the result is InvalidArgument after the first Run. The
// dataset must be batched. Returns OutOfRange, naming the step, if the loss is not finite; that
// step leaves the variables that Minimize updates unchanged, and no checkpoint of it is saved.
// Returns DataLoss, naming the step, the variable and the ranks, if the replicas' copies of a
// variable differ; no checkpoint of that step is saved either.
absl::StatusOr<TrainResult> TrainLoop(const Strategy& strategy, Step step, const Dataset& dataset,
                                      Progress& progress, const TrainLoopOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LOOP_H_
