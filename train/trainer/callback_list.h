// SPDX-License-Identifier: Apache-2.0
//
// The callbacks of one call of Trainer::Fit (as Keras' CallbackList): calls them in their order,
// and saves and restores their states. Private to the trainer.
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

  // Calls every callback, until one returns an error.
  absl::Status Call(Event event, TrainingState& state);
  void OnException(TrainingState& state, const absl::Status& why);

  // Returns the state of each callback under its key, and whether one of them has stopped training.
  absl::StatusOr<StateDict> SaveState(TrainingState& state) const;
  // Gives each callback its state back. Training stays stopped if the callback that stopped it is
  // still in the list, and does not take that back.
  absl::Status LoadState(TrainingState& state, const StateDict& saved);
  // The keys of the states that no callback of the list has saved.
  std::vector<std::string> UnusedKeys(const StateDict& saved) const;

 private:
  struct Entry {
    Callback* callback;
    std::string key;  // under which a checkpoint holds the state; no two are equal
  };

  std::vector<Entry> entries_;
  std::string stopped_by_;  // the key of the callback that has stopped training
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_CALLBACK_LIST_H_
