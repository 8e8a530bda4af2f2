// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_FTRL_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_FTRL_H_

#include "train/optimizers/optimizer.h"

namespace mirrorflow {

// Follow the regularised leader (FTRL), for sparse models: with an l1_regularization_strength above
// 0, many elements become exactly 0. With p = -learning_rate_power and
// l2 = l2_regularization_strength + beta / (2 * learning_rate):
//   g = gradient + 2 * l2_shrinkage_regularization_strength * variable
//   n' = n + gradient²
//   linear += g - (n'^p - n^p) / learning_rate * variable
//   variable = (clamp(linear, ±l1_regularization_strength) - linear) /
//              (n'^p / learning_rate + 2 * l2)
// where n is the slot `accumulator`, which starts at initial_accumulator_value.
// Errors: InvalidArgument from Minimize if learning_rate_power is positive, or if another option is
// negative.
// Source: McMahan et al., "Ad click prediction: a view from the trenches", 2013; Keras' form.
class Ftrl final : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.001;
    double learning_rate_power = -0.5;
    double initial_accumulator_value = 0.1;
    double l1_regularization_strength = 0;
    double l2_regularization_strength = 0;
    double l2_shrinkage_regularization_strength = 0;
    double beta = 0;
  };
  Ftrl() : Ftrl(Options()) {}
  explicit Ftrl(const Options& options);

 private:
  void Update(VariableUpdate& update, const Shared& shared) const override;
  const Options options_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_FTRL_H_
