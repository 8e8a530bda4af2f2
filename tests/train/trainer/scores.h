// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_TRAIN_TRAINER_SCORES_H_
#define MIRRORFLOW_TESTS_TRAIN_TRAINER_SCORES_H_

#include <utility>
#include <vector>

#include "train/trainer/callback.h"

namespace mirrorflow {

// Sets the metric `score` to the given values, one per epoch.
class Scores final : public Callback {
 public:
  explicit Scores(std::vector<double> scores) : scores_(std::move(scores)) {}
  absl::Status OnEpochEnd(TrainingState& state) override {
    state.logs["score"] = scores_.at(state.position.epoch);
    return absl::OkStatus();
  }

 private:
  const std::vector<double> scores_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_TRAIN_TRAINER_SCORES_H_
