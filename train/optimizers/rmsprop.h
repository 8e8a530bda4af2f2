// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_RMSPROP_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_RMSPROP_H_

#include "train/optimizers/optimizer.h"

namespace mirrorflow {

// Divides gradients by the square root of their running mean square:
//   rms = rho * rms + (1 - rho) * gradient²
//   accumulator = momentum * accumulator + learning_rate * gradient / sqrt(rms + epsilon)
//   variable -= accumulator
// With `centered`, rms - mean² + epsilon, an estimate of the variance, replaces rms + epsilon.
// Here,
//   mean = rho * mean + (1 - rho) * gradient.
// Errors: InvalidArgument from Minimize if `rho` or `momentum` is outside [0, 1], or if epsilon is
// negative or not finite.
// Sources: Hinton, "Neural networks for machine learning", lecture 6e, 2012; Graves, "Generating
// sequences with recurrent neural networks", 2013 (centered).
class RMSProp final : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.001;
    double rho = 0.9;
    double momentum = 0;
    double epsilon = 1e-7;
    bool centered = false;
  };
  RMSProp() : RMSProp(Options()) {}
  explicit RMSProp(const Options& options);

 private:
  Shared Prepare(const Scope& scope, Output learning_rate, Output step) const override;
  void Update(VariableUpdate& update, const Shared& shared) const override;
  const Options options_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_RMSPROP_H_
