// SPDX-License-Identifier: Apache-2.0
//
// Callback: the base class of objects whose methods Trainer::Fit calls during training, like the
// callbacks of Keras and Lightning.
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

// Values by name: `loss` and the metrics; values on the validation set have the prefix `val_`.
using Logs = std::map<std::string, double>;

// The training state that Fit passes to callbacks. `position`, `loss`, `rows`, `logs`, `stopped`
// and `interrupted` are equal on all workers, so that all workers can make the same decisions.
struct TrainingState {
  const Strategy& strategy;
  Session& session;
  int64_t epochs = 0;                           // FitOptions::epochs
  std::optional<int64_t> steps_per_epoch = {};  // unset if the dataset's size is unknown
  // Whether FitOptions::checkpoints is set. If so, a callback that writes a log must be able to
  // continue it in a run that resumes from a checkpoint.
  bool has_checkpoints = false;
  TrainingPosition position = {};               // how far training has progressed
  float loss = 0;                               // loss of the last step
  int64_t rows = 0;                             // rows in the last global batch
  Logs logs = {};                               // set in OnValidationEnd, OnEpochEnd and OnTrainEnd
  std::optional<std::string> stopped = {};      // why training ends early, for good
  std::optional<std::string> interrupted = {};  // why this run ends before training is complete
  // When the newest checkpoint was written or restored (CheckpointManager::newest_time). Set only
  // on worker 0.
  std::optional<MonotonicTime> checkpoint_time = {};

  // Ends training for good, and the current epoch with it: before the step if called in
  // OnStepBegin, otherwise after the current step or epoch. `why` becomes TrainResult::stopped. A
  // run that resumes from a checkpoint saved after the call does not continue training. All workers
  // must make the call in the same event. If the function is called several times, only the first
  // reason is kept.
  void StopTraining(std::string why) {
    if (!stopped) stopped = std::move(why);
  }
  // Ends this call of Fit but not training: a run that resumes from the last checkpoint continues.
  // Takes effect before the step if called in OnStepBegin; before the batch if called in
  // OnInferenceStepBegin, with the exceptions listed there; otherwise after the current step or
  // epoch. All workers must make the call in the same event.
  void Interrupt(std::string why) { interrupted = std::move(why); }
  // Returns whether this worker is the one that writes files and output.
  bool is_chief() const { return strategy.worker() == 0; }
};

// Override the methods for the events that you need; by default, they do nothing. If a method
// returns an error, training ends and Fit returns the error. The methods are called on the thread
// that called Fit.
class Callback {
 public:
  virtual ~Callback() = default;
  // Called at the start of Fit. Reset the callback's state here, because a callback can be passed
  // to Fit several times.
  virtual absl::Status OnTrainBegin(TrainingState&) { return absl::OkStatus(); }
  // Called once, before the first step of each epoch. A run that resumes from a checkpoint saved
  // after the call does not repeat it.
  virtual absl::Status OnEpochBegin(TrainingState&) { return absl::OkStatus(); }
  // Called once before each step. A resumed run does not repeat the call, even if the previous run
  // was interrupted between the call and the step.
  virtual absl::Status OnStepBegin(TrainingState&) { return absl::OkStatus(); }
  // Called after each step.
  virtual absl::Status OnStep(TrainingState&) { return absl::OkStatus(); }
  // Called before each batch that Trainer::Evaluate and Predict run during Fit, including
  // validation batches. After a callback has called Interrupt(), a validation ends before its next
  // batch, and an Evaluate or Predict that a callback has called in OnValidationEnd or OnEpochEnd
  // returns Cancelled; the resumed run repeats the validation or the event. In all other events,
  // Evaluate and Predict run to completion.
  virtual absl::Status OnInferenceStepBegin(TrainingState&) { return absl::OkStatus(); }
  // Called after each validation, which runs every `validation_steps` steps and at the end of every
  // epoch. The logs include the validation values.
  virtual absl::Status OnValidationEnd(TrainingState&) { return absl::OkStatus(); }
  // Called after each epoch's last step and its validation. If a step limit or an interruption cuts
  // the epoch short, the method is called in the run that resumes and completes the epoch.
  virtual absl::Status OnEpochEnd(TrainingState&) { return absl::OkStatus(); }
  // Called after the last step and the last checkpoint if there was no error. If it changes
  // variables, the session keeps the new values, but the last checkpoint has the old ones.
  virtual absl::Status OnTrainEnd(TrainingState&) { return absl::OkStatus(); }
  // Called instead of OnTrainEnd if Fit returns an error.
  virtual void OnException(TrainingState&, const absl::Status&) {}

  // SaveState adds the callback's state to a checkpoint. In a run that resumes from the checkpoint,
  // LoadState receives that state, after OnTrainBegin. A callback that assigns to variables must
  // save and restore their values. If this callback has stopped training but would not do so with
  // its current options, its LoadState can clear `state.stopped`, and training continues. Both
  // methods do nothing by default.
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
  // Returns the key of the callback's state in checkpoints; an empty string stands for the class
  // name. If the checkpoint does not have a callback's key, LoadState is not called. If several
  // callbacks in one Fit have the same key, numbers are appended to it.
  virtual std::string state_key() const { return ""; }
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_CALLBACK_H_
