// SPDX-License-Identifier: Apache-2.0
//
// The learning rate of an optimizer: a constant, or a schedule that computes it from the step.
//
//   Momentum({.learning_rate = 0.1})
//   Momentum({.learning_rate = schedules::OneCycle({.max_learning_rate = 0.1, .total_steps = n})})
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_LEARNING_RATE_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_LEARNING_RATE_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "framework/graph/scope.h"

namespace mirrorflow {

// Adds the learning rate of a step to a graph. `step` is a floating-point scalar, 0 in the first
// step; the result has the same dtype.
using LearningRateSchedule = std::function<Output(const Scope& scope, Output step)>;

class LearningRate {
 public:
  LearningRate(double value) : value_(value) {}  // NOLINT: implicit conversion from a number
  LearningRate(LearningRateSchedule schedule)    // NOLINT: and from a schedule
      : schedule_(std::move(schedule)) {}

  double value() const { return value_; }
  // Empty if the rate is a number.
  const LearningRateSchedule& schedule() const { return schedule_; }

 private:
  double value_ = 0;
  LearningRateSchedule schedule_;
};

namespace schedules {

struct OneCycleOptions {
  double max_learning_rate = 0.1;
  int64_t total_steps = 0;
  double warmup_fraction = 0.3;   // of the steps
  double div_factor = 25;         // starts at max_learning_rate / div_factor,
  double final_div_factor = 1e4;  // ends at the first rate / final_div_factor and stays there
};

// Rises to the maximum and falls again, each time along half a cosine. Minimize fails if an option
// is out of range. Source: Smith and Topin, "Super-convergence", 2018; PyTorch's OneCycleLR (two
// phases, without its momentum cycle).
LearningRateSchedule OneCycle(const OneCycleOptions& options);

struct PiecewiseConstantOptions {
  std::vector<int64_t> boundaries = {};  // ascending, from 0
  std::vector<double> values = {};       // one more than boundaries
};

// values[0] up to and including step boundaries[0], then values[1] up to and including
// boundaries[1], … Source: Keras' PiecewiseConstantDecay.
LearningRateSchedule PiecewiseConstant(const PiecewiseConstantOptions& options);

struct CosineDecayOptions {
  double initial_learning_rate = 0.1;
  int64_t decay_steps = 0;
  double alpha = 0;  // ends at initial_learning_rate * alpha and stays there
};

// Falls along half a cosine. Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with
// warm restarts", 2017; Keras' CosineDecay.
LearningRateSchedule CosineDecay(const CosineDecayOptions& options);

struct WarmUpOptions {
  int64_t steps = 0;
  double initial_learning_rate = 0;
  LearningRate after = 0.1;
};

// Rises linearly from initial_learning_rate to the first rate of `after` in `steps` steps, then
// follows `after`, which counts its steps from there. With CosineDecay as `after`, it equals Keras'
// CosineDecay with warmup_steps. Source: Goyal et al., "Accurate, large minibatch SGD", 2017.
LearningRateSchedule WarmUp(const WarmUpOptions& options);

}  // namespace schedules
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_LEARNING_RATE_H_
