// SPDX-License-Identifier: Apache-2.0
//
// The callbacks of one call of Trainer::Fit, like Keras' CallbackList: calls them in order, and
// saves and restores their states. Private to the trainer.
#ifndef MIRRORFLOW_TRAIN_TRAINER_CALLBACK_LIST_H_
#define MIRRORFLOW_TRAIN_TRAINER_CALLBACK_LIST_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "train/checkpoint/state_dict.h"
#include "train/trainer/callback.h"

namespace mirrorflow {

class CallbackList {
 public:
  using Event = absl::Status (Callback::*)(TrainingState&);

  // The callbacks must outlive the list. InvalidArgument if one is null.
  static absl::StatusOr<CallbackList> Create(absl::Span<Callback* const> callbacks);
  CallbackList() = default;

  // Calls the callbacks in order, until one returns an error.
  absl::Status Call(Event event, TrainingState& state);
  void OnException(TrainingState& state, const absl::Status& why);

  // Returns the state of each callback under its key and, if training is stopped, which one stopped
  // it.
  absl::StatusOr<StateDict> SaveState(TrainingState& state) const;
  // Restores the state of each callback. Training remains stopped if the list still has the
  // callback that stopped it, unless that callback's LoadState resumes training.
  absl::Status LoadState(TrainingState& state, const StateDict& saved);
  // Returns the keys of saved states that belong to no callback of this list.
  std::vector<std::string> UnusedKeys(const StateDict& saved) const;

 private:
  struct Entry {
    Callback* callback;
    std::string key;  // identifies the state in a checkpoint; unique in the list
  };

  std::vector<Entry> entries_;
  std::string stopped_by_;  // key of the callback that stopped training
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_CALLBACK_LIST_H_
