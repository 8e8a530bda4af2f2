// SPDX-License-Identifier: Apache-2.0
//
// Learning-rate schedules, with the names, defaults and values of keras.optimizers.schedules where
// Keras has them.
//
//   Adam({.learning_rate = schedules::ExponentialDecay(
//             {.initial_learning_rate = 0.1, .decay_steps = 1000, .decay_rate = 0.96})})
//
// In the formulas, `step` is the number of updates so far: 0 in the first step. All steps are
// counted in updates, not in epochs. PyTorch's StepLR is ExponentialDecay with `staircase`.
//
// Errors: Minimize fails with InvalidArgument, naming the option, if an option is out of range.
// A number of steps with the comment "at least 1" has no usable default and must be set. Rates and
// factors must be finite and at least 0; div_factor and final_div_factor must be above 0.
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_SCHEDULES_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_SCHEDULES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "train/optimizers/learning_rate.h"

namespace mirrorflow::schedules {

struct OneCycleOptions {
  double max_learning_rate = 0.1;
  int64_t total_steps = 0;        // at least 1
  double warmup_fraction = 0.3;   // how much of total_steps, from 0 to 1, the rate rises
  double div_factor = 25;         // the first rate is max_learning_rate / div_factor
  double final_div_factor = 1e4;  // the last rate is the first one / final_div_factor
};

// Rises to max_learning_rate and then falls to the last rate, each along half a cosine. Stays at
// the last rate after total_steps.
// Source: Smith and Topin, "Super-convergence", 2018; PyTorch's OneCycleLR (two phases, without its
// momentum cycle).
LearningRateSchedule OneCycle(const OneCycleOptions& options);

struct PiecewiseConstantOptions {
  std::vector<int64_t> boundaries = {};  // steps, ascending, each at least 0
  std::vector<double> values = {};       // one more value than `boundaries` has
};

// Uses values[0] up to and including step boundaries[0], then values[1] up to and including
// boundaries[1], and so on. Source: Keras' PiecewiseConstantDecay.
LearningRateSchedule PiecewiseConstant(const PiecewiseConstantOptions& options);

struct CosineDecayOptions {
  double initial_learning_rate = 0.1;
  int64_t decay_steps = 0;  // at least 1
  double alpha = 0;         // the last rate is initial_learning_rate * alpha
};

// Falls along half a cosine in decay_steps steps, then stays at the last rate.
// Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017;
// Keras' CosineDecay.
LearningRateSchedule CosineDecay(const CosineDecayOptions& options);

struct WarmUpOptions {
  int64_t steps = 0;  // 0: no warm-up
  double initial_learning_rate = 0;
  LearningRate after = 0.1;  // a constant or another schedule
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
  bool staircase = false;  // whether to round step / decay_steps down
};

// initial_learning_rate * decay_rate^(step / decay_steps).
LearningRateSchedule ExponentialDecay(const ExponentialDecayOptions& options);

struct InverseTimeDecayOptions {
  double initial_learning_rate = 0.1;
  int64_t decay_steps = 0;  // at least 1
  double decay_rate = 0.5;
  bool staircase = false;  // whether to round step / decay_steps down
};

// initial_learning_rate / (1 + decay_rate * step / decay_steps).
LearningRateSchedule InverseTimeDecay(const InverseTimeDecayOptions& options);

struct PolynomialDecayOptions {
  double initial_learning_rate = 0.1;
  int64_t decay_steps = 0;  // at least 1
  double end_learning_rate = 0.0001;
  double power = 1;
  // If true, the next multiple of decay_steps replaces decay_steps in the formula once `step` has
  // passed it: the rate rises again, and decays until that step. If false, the rate stays at
  // end_learning_rate after decay_steps.
  bool cycle = false;
};

// (initial_learning_rate - end_learning_rate) * (1 - step / decay_steps)^power + end_learning_rate.
LearningRateSchedule PolynomialDecay(const PolynomialDecayOptions& options);

struct CosineDecayRestartsOptions {
  double initial_learning_rate = 0.1;
  int64_t first_decay_steps = 0;  // at least 1
  double t_mul = 2;               // each decay is t_mul times as long as the last; at least 1
  double m_mul = 1;               // each decay starts at m_mul times the last decay's first rate
  double alpha = 0;               // each decay ends at initial_learning_rate * alpha
};

// CosineDecay with warm restarts: after each decay, the rate jumps up again, and the next decay
// begins.
// Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017.
LearningRateSchedule CosineDecayRestarts(const CosineDecayRestartsOptions& options);

// A rate that the program can change between steps: the value of a float variable that starts at
// `initial`. `variable` is its name. Set it with Session::AssignVariable("learning_rate",
// Tensor::Scalar(0.01F)), or use the callback ReduceLROnPlateau.
LearningRateSchedule Adjustable(double initial, const std::string& variable = "learning_rate");

}  // namespace mirrorflow::schedules

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_SCHEDULES_H_
