// SPDX-License-Identifier: Apache-2.0
//
// Callback: what a user adds to Trainer::Fit (as Keras' and Lightning's callbacks).
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

// Values by name: `loss`, the metrics, and the same with the prefix `val_` for the validation set.
using Logs = std::map<std::string, double>;

// State of training. All workers see the same numbers, so all make the same decisions.
struct TrainingState {
  const Strategy& strategy;
  Session& session;
  int64_t epochs = 0;                           // as passed to Fit
  std::optional<int64_t> steps_per_epoch = {};  // if the size of the dataset is known
  // This run saves checkpoints or resumes from one, so logs must be resumable.
  bool has_checkpoints = false;
  TrainingPosition position = {};               // the steps that have run
  float loss = 0;                               // of the last step
  int64_t rows = 0;                             // of its global batch
  Logs logs = {};                               // in OnValidationEnd, OnEpochEnd and OnTrainEnd
  std::optional<std::string> stopped = {};      // why training is over
  std::optional<std::string> interrupted = {};  // why this run ends before training is over
  // When the newest checkpoint was written or restored (CheckpointManager::newest_time).
  std::optional<MonotonicTime> checkpoint_time = {};

  // Ends training for good: before the step in OnStepBegin, else after the step or the epoch. The
  // epoch ends with it. A run that resumes from a later checkpoint does not continue training. All
  // workers must call it in the same event. The first reason counts.
  void StopTraining(std::string why) {
    if (!stopped) stopped = std::move(why);
  }
  // Ends this run: before the step in OnStepBegin, before the batch in OnInferenceStepBegin (which
  // says where), else after the step or the epoch. Training goes on in a run that resumes from its
  // last checkpoint. All workers must call it in the same event.
  void Interrupt(std::string why) { interrupted = std::move(why); }
  // Whether this worker writes files and output.
  bool is_chief() const { return strategy.worker() == 0; }
};

// Each method may do nothing. An error ends training; Fit returns it.
class Callback {
 public:
  virtual ~Callback() = default;
  // Resets the callback, which may be passed to several calls of Fit.
  virtual absl::Status OnTrainBegin(TrainingState&) { return absl::OkStatus(); }
  // Before the first step of each epoch, once: a run that resumes from a checkpoint after it does
  // not call it again.
  virtual absl::Status OnEpochBegin(TrainingState&) { return absl::OkStatus(); }
  // Before each step, once, even if the run is interrupted before the step.
  virtual absl::Status OnStepBegin(TrainingState&) { return absl::OkStatus(); }
  virtual absl::Status OnStep(TrainingState&) { return absl::OkStatus(); }
  // Before each batch that Trainer::Evaluate and Predict run during Fit, those of the validation
  // included. After an interruption, a validation, and what runs in OnValidationEnd and OnEpochEnd,
  // ends with Cancelled, and the resumed run repeats the validation or the event. In other events
  // all batches run.
  virtual absl::Status OnInferenceStepBegin(TrainingState&) { return absl::OkStatus(); }
  // After the validation that follows every `validation_steps` steps or every epoch. The logs have
  // the values of the validation set.
  virtual absl::Status OnValidationEnd(TrainingState&) { return absl::OkStatus(); }
  // After the last step of each epoch, and its validation. An epoch that a step limit or an
  // interruption cuts short ends in the run that resumes it.
  virtual absl::Status OnEpochEnd(TrainingState&) { return absl::OkStatus(); }
  // After the last step and the last checkpoint, if there was no error; else OnException. What it
  // changes is a result of this run, and not part of the training that a checkpoint resumes.
  virtual absl::Status OnTrainEnd(TrainingState&) { return absl::OkStatus(); }
  virtual void OnException(TrainingState&, const absl::Status&) {}

  // Checkpoints hold what SaveState adds to `saved`. In a run that resumes from one, LoadState gets
  // it back after OnTrainBegin. A callback that assigns variables saves their values, and assigns
  // them again. LoadState may clear `state.stopped` if this callback has stopped training and, with
  // other options, no longer would. Both do nothing by default.
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
  // Names the state in checkpoints; the callbacks of a Fit that have the same name are numbered. A
  // callback with another name than the saved one starts fresh. Empty: the name of the class.
  virtual std::string state_key() const { return ""; }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_CALLBACK_H_
