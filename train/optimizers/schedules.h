// SPDX-License-Identifier: Apache-2.0
//
// Schedules of learning rates, with the names, defaults and values of Keras'
// (keras.optimizers.schedules) where it has them. Minimize fails if an option is out of range.
//
//   Adam({.learning_rate = schedules::ExponentialDecay(
//             {.initial_learning_rate = 0.1, .decay_steps = 1000, .decay_rate = 0.96})})
//
// PyTorch's StepLR is ExponentialDecay with staircase.
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_SCHEDULES_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_SCHEDULES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "train/optimizers/learning_rate.h"

namespace mirrorflow::schedules {

struct OneCycleOptions {
  double max_learning_rate = 0.1;
  int64_t total_steps = 0;
  double warmup_fraction = 0.3;   // of the steps
  double div_factor = 25;         // starts at max_learning_rate / div_factor,
  double final_div_factor = 1e4;  // ends at the first rate / final_div_factor and stays there
};

// Rises to the maximum and falls again, each time along half a cosine. Source: Smith and Topin,
// "Super-convergence", 2018; PyTorch's OneCycleLR (two phases, without its momentum cycle).
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

struct ExponentialDecayOptions {
  double initial_learning_rate = 0.1;
  int64_t decay_steps = 0;  // 1 or more
  double decay_rate = 0.96;
  bool staircase = false;
};

// initial_learning_rate * decay_rate^(step / decay_steps). With staircase, the quotient is rounded
// down.
LearningRateSchedule ExponentialDecay(const ExponentialDecayOptions& options);

struct InverseTimeDecayOptions {
  double initial_learning_rate = 0.1;
  int64_t decay_steps = 0;  // 1 or more
  double decay_rate = 0.5;
  bool staircase = false;
};

// initial_learning_rate / (1 + decay_rate * step / decay_steps), and staircase rounds the quotient
// down.
LearningRateSchedule InverseTimeDecay(const InverseTimeDecayOptions& options);

struct PolynomialDecayOptions {
  double initial_learning_rate = 0.1;
  int64_t decay_steps = 0;  // 1 or more
  double end_learning_rate = 0.0001;
  double power = 1;
  // Rises again after decay_steps: the decay then takes the next multiple of decay_steps.
  bool cycle = false;
};

// (initial_learning_rate - end_learning_rate) * (1 - step / decay_steps)^power + end_learning_rate,
// where it stays after decay_steps.
LearningRateSchedule PolynomialDecay(const PolynomialDecayOptions& options);

struct CosineDecayRestartsOptions {
  double initial_learning_rate = 0.1;
  int64_t first_decay_steps = 0;  // 1 or more
  double t_mul = 2;               // each decay takes this many times the steps of the one before,
  double m_mul = 1;               // and begins at this many times its first rate
  double alpha = 0;               // ends at initial_learning_rate * alpha
};

// CosineDecay with warm restarts. t_mul must be at least 1.
// Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017.
LearningRateSchedule CosineDecayRestarts(const CosineDecayRestartsOptions& options);

// A rate that the program changes between steps: the value of a float variable, which begins at
// `initial`. Set it by Session::AssignVariable("learning_rate", …), or have ReduceLROnPlateau do
// so.
LearningRateSchedule Adjustable(double initial, const std::string& variable = "learning_rate");

}  // namespace mirrorflow::schedules

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_SCHEDULES_H_
