// SPDX-License-Identifier: Apache-2.0
//
// CallbackList calls the callbacks of one Trainer::Fit in order, and saves and restores their
// states, like Keras' CallbackList. Private to the trainer.
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

  // The callbacks must outlive the list. Returns InvalidArgument if a callback is null.
  static absl::StatusOr<CallbackList> Create(absl::Span<Callback* const> callbacks);
  CallbackList() = default;

  // Calls `event` on each callback, in order, until one returns an error.
  absl::Status Call(Event event, TrainingState& state);
  void OnException(TrainingState& state, const absl::Status& why);

  // Returns each callback's state under its key and, if a callback stopped training, that
  // callback's key.
  absl::StatusOr<StateDict> SaveState(TrainingState& state) const;
  // Restores each callback's state. Training remains stopped if the callback that stopped it is
  // still in the list, unless that callback's LoadState resumes training.
  absl::Status LoadState(TrainingState& state, const StateDict& saved);
  // Returns the keys of saved states that belong to no callback in the list.
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
