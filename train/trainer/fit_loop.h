// SPDX-License-Identifier: Apache-2.0
//
// Implements one call of Trainer::Fit: runs the steps, validations and callbacks, and saves
// checkpoints. Private to the trainer.
#ifndef MIRRORFLOW_TRAIN_TRAINER_FIT_LOOP_H_
#define MIRRORFLOW_TRAIN_TRAINER_FIT_LOOP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "train/trainer/callback_list.h"
#include "train/trainer/fit_state.h"
#include "train/trainer/trainer.h"

namespace mirrorflow {

class Trainer::Loop {
 public:
  // `trainer`, `dataset` and `options` must outlive the loop.
  Loop(Trainer& trainer, const Dataset& dataset, const FitOptions& options);

  absl::StatusOr<TrainResult> Run();
  // Notifies the callbacks of an error.
  void Fail(const absl::Status& why);
  // Call before each batch of Evaluate or Predict. Returns Cancelled if a callback has interrupted
  // the run at a point that a resumed run can repeat: in a validation or in the events after it.
  absl::Status BeginInferenceStep();

 private:
  using Stage = FitState::Stage;

  // Restores the state from the checkpoint that FitOptions::start refers to.
  absl::Status Resume();
  absl::Status CheckDataset(const StateDict& state) const;
  absl::Status Train();
  absl::Status RunEpoch();
  absl::Status RunSteps();
  absl::Status RunStep(const DistributedBatch& batch);
  // Runs the pending validation, then OnValidationEnd and, at the end of an epoch, OnEpochEnd.
  absl::Status EndStage();
  absl::Status EndEpoch();
  absl::Status Call(CallbackList::Event event);
  bool is_due(int64_t every) const { return every > 0 && state_.position.step % every == 0; }
  // Returns whether training is over or this run is interrupted. A step limit overrides `epochs`:
  // training runs as many epochs as it takes to reach the limit.
  bool is_over() const;
  // The part of a checkpoint that callbacks and inference steps can change.
  struct Snapshot {
    StateDict callbacks;
    uint64_t reading_step = 0;
  };
  absl::StatusOr<Snapshot> MakeSnapshot();
  absl::Status Save();
  absl::Status SaveLast();
  // Appends the logs of an epoch that a step limit cut short to the history.
  absl::Status AddPartialEpoch();
  TrainResult MakeResult();
  // Waits for the save in progress, then returns `why`. All workers call this with the same error
  // after the same step.
  absl::Status EndTogether(const absl::Status& why);

  Trainer& trainer_;
  const Dataset& dataset_;
  const FitOptions& options_;
  CallbackList callbacks_;
  TrainingState state_;
  FitState fit_;
  // The snapshot from before the current validation or, once it has ended, from before the events
  // that follow it. If the run is interrupted in the validation or an event, its checkpoint
  // contains this snapshot, and the resumed run repeats the validation or event.
  std::optional<Snapshot> before_;
  bool is_training_ = false;  // from the first step or event until the last step or event
  bool is_saved_ = true;      // the last checkpoint covers all steps and events
  TrainResult result_;
  std::vector<double> step_ms_, host_us_;
  int64_t largest_batch_ = 0;
  bool is_first_step_ = true;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_FIT_LOOP_H_
