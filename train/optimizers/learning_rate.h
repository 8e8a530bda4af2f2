// SPDX-License-Identifier: Apache-2.0
//
// LearningRate: the learning rate of an optimizer. It is a constant, or a schedule that computes
// the rate from the step number.
//
//   Momentum({.learning_rate = 0.1})
//   Momentum({.learning_rate = schedules::OneCycle({.max_learning_rate = 0.1, .total_steps = n})})
//
// train/optimizers/schedules.h provides schedules.
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_LEARNING_RATE_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_LEARNING_RATE_H_

#include <functional>
#include <utility>

#include "framework/graph/scope.h"

namespace mirrorflow {

// Adds nodes that compute the learning rate of a step to a graph, and returns the rate. `step` is a
// floating-point scalar: 0 in the first step, and then the number of updates so far. The result
// must be a scalar of the same dtype.
using LearningRateSchedule = std::function<Output(const Scope& scope, Output step)>;

class LearningRate {
 public:
  LearningRate(double value) : value_(value) {}  // NOLINT: implicit conversion from a number
  LearningRate(LearningRateSchedule schedule)    // NOLINT: and from a schedule
      : schedule_(std::move(schedule)) {}

  double value() const { return value_; }
  // Returns the schedule; it is empty if the rate is a constant.
  const LearningRateSchedule& schedule() const { return schedule_; }

 private:
  double value_ = 0;
  LearningRateSchedule schedule_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_LEARNING_RATE_H_
