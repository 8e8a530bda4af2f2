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
#include "framework/session/session.h"
#include "train/checkpoint/checkpoint_manager.h"

namespace mirrorflow {

// Values by name: `loss`, the metrics, and the same with the prefix `val_` for the validation set.
using Logs = std::map<std::string, double>;

// State of training. All workers see the same numbers, so that all decide alike.
struct TrainingState {
  const Strategy& strategy;
  Session& session;
  int64_t epochs = 0;                           // as Fit was asked
  std::optional<int64_t> steps_per_epoch = {};  // if the dataset tells its size
  TrainingPosition position = {};               // the steps that have run
  float loss = 0;                               // of the last step
  int64_t rows = 0;                             // of its global batch
  Logs logs = {};                               // in OnEpochEnd and OnTrainEnd
  std::optional<std::string> stopped = {};      // why training ends early

  // Ends training: before the step in OnStepBegin, else after the step or the epoch. All workers
  // must do so at the same call.
  void StopTraining(std::string why) { stopped = std::move(why); }
  // Whether this worker writes files and output.
  bool is_chief() const { return strategy.worker() == 0; }
};

// Each method may do nothing. An error ends training; Fit returns it.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual absl::Status OnTrainBegin(TrainingState&) { return absl::OkStatus(); }
  virtual absl::Status OnEpochBegin(TrainingState&) { return absl::OkStatus(); }
  virtual absl::Status OnStepBegin(TrainingState&) { return absl::OkStatus(); }
  virtual absl::Status OnStep(TrainingState&) { return absl::OkStatus(); }
  // After the validation that follows every `validation_steps` steps or every epoch. The logs have
  // the values of the validation set.
  virtual absl::Status OnValidationEnd(TrainingState&) { return absl::OkStatus(); }
  virtual absl::Status OnEpochEnd(TrainingState&) { return absl::OkStatus(); }
  // After the last step, if there was no error; else OnException.
  virtual absl::Status OnTrainEnd(TrainingState&) { return absl::OkStatus(); }
  virtual void OnException(TrainingState&, const absl::Status&) {}
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_CALLBACK_H_
