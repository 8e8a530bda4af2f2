// SPDX-License-Identifier: Apache-2.0
//
// Callback: the base class of hooks that a user adds to Trainer::Fit, like Keras' and Lightning's
// callbacks.
//
//   class StopBelow final : public Callback {
//     absl::Status OnEpochEnd(TrainingState& state) override {
//       if (state.logs["loss"] < 0.1) state.StopTraining("the loss is below 0.1");
//       return absl::OkStatus();
//     }
//   };
#ifndef MIRRORFLOW_TRAIN_TRAINER_CALLBACK_H_
#define MIRRORFLOW_TRAIN_TRAINER_CALLBACK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "distribute/strategy/strategy.h"
#include "framework/core/monotonic_time.h"
#include "framework/session/session.h"
#include "train/checkpoint/checkpoint_manager.h"
#include "train/checkpoint/state_dict.h"

namespace mirrorflow {

// Values by name: `loss`, the metrics, and their values on the validation set, prefixed with
// `val_`.
using Logs = std::map<std::string, double>;

// The state of training that callbacks see. Its position, loss, rows, logs and reasons are equal on
// all workers, so all make the same decisions; `checkpoint_time` is set only on worker 0.
struct TrainingState {
  const Strategy& strategy;
  Session& session;
  int64_t epochs = 0;                           // as passed to Fit
  std::optional<int64_t> steps_per_epoch = {};  // unset if the dataset's size is unknown
  // Whether this run saves checkpoints or resumes from one, so that logs must be resumable.
  bool has_checkpoints = false;
  TrainingPosition position = {};               // how far training has come
  float loss = 0;                               // of the last step
  int64_t rows = 0;                             // rows of the last global batch
  Logs logs = {};                               // set in OnValidationEnd, OnEpochEnd and OnTrainEnd
  std::optional<std::string> stopped = {};      // why training has ended for good
  std::optional<std::string> interrupted = {};  // why this run ends, although training has not
  // When the newest checkpoint was written or restored (CheckpointManager::newest_time).
  std::optional<MonotonicTime> checkpoint_time = {};

  // Ends training for good: before the step if called in OnStepBegin, otherwise after the current
  // step or epoch. It also ends the current epoch. A run that resumes from a checkpoint saved after
  // the call does not continue training. All workers must call it in the same event. Only the first
  // reason is kept.
  void StopTraining(std::string why) {
    if (!stopped) stopped = std::move(why);
  }
  // Ends this run but not training: a later run that resumes from the last checkpoint continues.
  // Takes effect before the step if called in OnStepBegin, before the batch if called in
  // OnInferenceStepBegin (which lists exceptions), otherwise after the current step or epoch. All
  // workers must call it in the same event.
  void Interrupt(std::string why) { interrupted = std::move(why); }
  // Whether this worker writes files and output.
  bool is_chief() const { return strategy.worker() == 0; }
};

// Override the events of interest; the defaults do nothing. If a method returns an error, training
// ends and Fit returns the error.
class Callback {
 public:
  virtual ~Callback() = default;
  // Called at the start of Fit. Reset the callback here: it may be passed to several calls of Fit.
  virtual absl::Status OnTrainBegin(TrainingState&) { return absl::OkStatus(); }
  // Called once, before the first step of each epoch. A run that resumes from a checkpoint saved
  // after the call does not repeat it.
  virtual absl::Status OnEpochBegin(TrainingState&) { return absl::OkStatus(); }
  // Called once before each step. A resumed run does not repeat the call, even if the previous run
  // was interrupted between the call and the step.
  virtual absl::Status OnStepBegin(TrainingState&) { return absl::OkStatus(); }
  // Called after each step.
  virtual absl::Status OnStep(TrainingState&) { return absl::OkStatus(); }
  // Called before each batch that Trainer::Evaluate and Predict run during Fit, including those of
  // the validation. Once a callback has called Interrupt(), a validation ends before its next
  // batch, and Evaluate or Predict, called in OnValidationEnd or OnEpochEnd, returns Cancelled; the
  // resumed run repeats the validation or the event. In all other events, Evaluate and Predict run
  // to the end.
  virtual absl::Status OnInferenceStepBegin(TrainingState&) { return absl::OkStatus(); }
  // Called after each validation, which runs every `validation_steps` steps and at the end of every
  // epoch. The logs include the values of the validation set.
  virtual absl::Status OnValidationEnd(TrainingState&) { return absl::OkStatus(); }
  // Called after the last step of each epoch and its validation. If a step limit or an interruption
  // cuts the epoch short, the run that resumes and completes the epoch makes the call.
  virtual absl::Status OnEpochEnd(TrainingState&) { return absl::OkStatus(); }
  // Called after the last step and the last checkpoint if there was no error. Variables that it
  // changes are part of this run's result, but not of the training that a checkpoint resumes.
  virtual absl::Status OnTrainEnd(TrainingState&) { return absl::OkStatus(); }
  // Called instead of OnTrainEnd if Fit returns an error.
  virtual void OnException(TrainingState&, const absl::Status&) {}

  // SaveState adds the callback's state to a checkpoint; a run that resumes from the checkpoint
  // gets it back in LoadState, after OnTrainBegin. A callback that assigns variables must save
  // their values and assign them again. If this callback had stopped training but would not with
  // its present options, LoadState may clear `state.stopped`. Both methods do nothing by default.
  //
  //   absl::Status SaveState(TrainingState&, StateDict& saved) const override {
  //     saved.Set("best", best_);
  //     return absl::OkStatus();
  //   }
  //   absl::Status LoadState(TrainingState&, const StateDict& saved) override {
  //     return saved.Get("best", &best_);
  //   }
  virtual absl::Status SaveState(TrainingState&, StateDict&) const { return absl::OkStatus(); }
  virtual absl::Status LoadState(TrainingState&, const StateDict&) { return absl::OkStatus(); }
  // Identifies the callback's state in checkpoints. A callback whose key is not in the checkpoint
  // starts fresh. Callbacks of one Fit with equal keys are numbered. Empty: the class name.
  virtual std::string state_key() const { return ""; }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_CALLBACK_H_
