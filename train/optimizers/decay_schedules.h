// SPDX-License-Identifier: Apache-2.0
//
// Learning rates that decay by a formula, with the names, defaults and values of Keras'
// (keras.optimizers.schedules). Minimize fails if an option is out of range.
//
//   Adam({.learning_rate = schedules::ExponentialDecay(
//             {.initial_learning_rate = 0.1, .decay_steps = 1000, .decay_rate = 0.96})})
//
// PyTorch's StepLR is ExponentialDecay with staircase.
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_DECAY_SCHEDULES_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_DECAY_SCHEDULES_H_

#include <cstdint>

#include "train/optimizers/learning_rate.h"

namespace mirrorflow::schedules {

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

// CosineDecay with restarts. t_mul is 1 or more.
// Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017.
LearningRateSchedule CosineDecayRestarts(const CosineDecayRestartsOptions& options);

}  // namespace mirrorflow::schedules

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_DECAY_SCHEDULES_H_
