// SPDX-License-Identifier: Apache-2.0
//
// FitState holds the state of a Trainer::Fit apart from the variables, the position and the
// callbacks. Checkpoints include it, so a resumed run returns the same result as an uninterrupted
// run.
#ifndef MIRRORFLOW_TRAIN_TRAINER_FIT_STATE_H_
#define MIRRORFLOW_TRAIN_TRAINER_FIT_STATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "train/checkpoint/state_dict.h"
#include "train/trainer/callback.h"

namespace mirrorflow {

// A mean of losses, weighted by the row counts of their batches.
struct MeanLoss {
  void Add(double loss, int64_t batch_rows) {
    sum += loss * static_cast<double>(batch_rows);
    rows += batch_rows;
  }
  double value() const { return rows == 0 ? 0 : sum / static_cast<double>(rows); }

  double sum = 0;
  int64_t rows = 0;
};

struct FitState {
  // The next action of the loop at the current position.
  enum class Stage { kStep, kValidation, kEpochEnd };

  MeanLoss epoch_loss;
  float loss = 0;    // loss of the last step
  int64_t rows = 0;  // rows in the last batch
  Stage stage = Stage::kStep;
  // Which events have already been delivered at this position.
  bool has_begun_epoch = false;
  bool has_begun_step = false;
  // Which values are already in `logs`, during a validation and at the end of an epoch. Each metric
  // is read only once, because reading it also resets it.
  bool has_training_logs = false;
  bool has_validation_logs = false;
  Logs logs;
  Logs last_epoch;  // the logs of the last completed epoch

  // Makes kStep the next stage and clears the logs.
  void EndStage();

  void Save(StateDict& state) const;
  absl::Status Load(const StateDict& state);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_FIT_STATE_H_
