// SPDX-License-Identifier: Apache-2.0
//
// Learning-rate schedules, with the names, defaults and values of keras.optimizers.schedules where
// Keras has them. Minimize fails if an option is out of range.
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
  double warmup_fraction = 0.3;   // fraction of total_steps
  double div_factor = 25;         // the first rate is max_learning_rate / div_factor
  double final_div_factor = 1e4;  // the last rate is the first one / final_div_factor
};

// Rises to the maximum and falls, each along half a cosine, then stays at the last rate.
// Source: Smith and Topin, "Super-convergence", 2018; PyTorch's OneCycleLR (two phases, without its
// momentum cycle).
LearningRateSchedule OneCycle(const OneCycleOptions& options);

struct PiecewiseConstantOptions {
  std::vector<int64_t> boundaries = {};  // ascending, from 0
  std::vector<double> values = {};       // one more than boundaries
};

// Uses values[0] up to and including step boundaries[0], then values[1] up to and including
// boundaries[1], and so on. Source: Keras' PiecewiseConstantDecay.
LearningRateSchedule PiecewiseConstant(const PiecewiseConstantOptions& options);

struct CosineDecayOptions {
  double initial_learning_rate = 0.1;
  int64_t decay_steps = 0;
  double alpha = 0;  // the last rate is initial_learning_rate * alpha
};

// Falls along half a cosine, then stays at the last rate. Source: Loshchilov and Hutter, "SGDR:
// stochastic gradient descent with warm restarts", 2017; Keras' CosineDecay.
LearningRateSchedule CosineDecay(const CosineDecayOptions& options);

struct WarmUpOptions {
  int64_t steps = 0;
  double initial_learning_rate = 0;
  LearningRate after = 0.1;
};

// Rises linearly from initial_learning_rate to the first rate of `after` over `steps` steps, then
// follows `after`, whose step count starts at the end of the warm-up. With CosineDecay as `after`,
// this equals Keras' CosineDecay with warmup_steps.
// Source: Goyal et al., "Accurate, large minibatch SGD", 2017.
LearningRateSchedule WarmUp(const WarmUpOptions& options);

struct ExponentialDecayOptions {
  double initial_learning_rate = 0.1;
  int64_t decay_steps = 0;  // at least 1
  double decay_rate = 0.96;
  bool staircase = false;
};

// initial_learning_rate * decay_rate^(step / decay_steps). With staircase, the quotient is rounded
// down.
LearningRateSchedule ExponentialDecay(const ExponentialDecayOptions& options);

struct InverseTimeDecayOptions {
  double initial_learning_rate = 0.1;
  int64_t decay_steps = 0;  // at least 1
  double decay_rate = 0.5;
  bool staircase = false;
};

// initial_learning_rate / (1 + decay_rate * step / decay_steps). With staircase, step / decay_steps
// is rounded down.
LearningRateSchedule InverseTimeDecay(const InverseTimeDecayOptions& options);

struct PolynomialDecayOptions {
  double initial_learning_rate = 0.1;
  int64_t decay_steps = 0;  // at least 1
  double end_learning_rate = 0.0001;
  double power = 1;
  // After decay_steps, the rate rises again and decays until the next multiple of decay_steps.
  bool cycle = false;
};

// (initial_learning_rate - end_learning_rate) * (1 - step / decay_steps)^power + end_learning_rate.
// Stays at end_learning_rate after decay_steps, unless `cycle` is true.
LearningRateSchedule PolynomialDecay(const PolynomialDecayOptions& options);

struct CosineDecayRestartsOptions {
  double initial_learning_rate = 0.1;
  int64_t first_decay_steps = 0;  // at least 1
  double t_mul = 2;               // each decay is t_mul times as long as the last; at least 1
  double m_mul = 1;               // each decay starts at m_mul times the last decay's first rate
  double alpha = 0;               // each decay ends at initial_learning_rate * alpha
};

// CosineDecay with warm restarts.
// Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017.
LearningRateSchedule CosineDecayRestarts(const CosineDecayRestartsOptions& options);

// A rate that the program can change between steps: the value of a float variable that starts at
// `initial`. Set it with Session::AssignVariable("learning_rate", …), or use the callback
// ReduceLROnPlateau.
LearningRateSchedule Adjustable(double initial, const std::string& variable = "learning_rate");

}  // namespace mirrorflow::schedules

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_SCHEDULES_H_
