// SPDX-License-Identifier: Apache-2.0
//
// Adagrad and Adadelta, which divide gradients by the square root of their accumulated squares.
//
// Errors: InvalidArgument from Minimize if an option is negative or not finite, or if rho is
// above 1.
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_ADAGRAD_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_ADAGRAD_H_

#include "train/optimizers/optimizer.h"

namespace mirrorflow {

// Divides the gradient by the square root of the sum of all squared gradients so far:
//   accumulator += gradient²
//   variable -= learning_rate * gradient / (sqrt(accumulator) + epsilon)
// Source: Duchi et al., "Adaptive subgradient methods for online learning and stochastic
// optimization", 2011.
class Adagrad final : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.001;
    double initial_accumulator_value = 0.1;  // of every element
    double epsilon = 1e-7;
  };
  Adagrad() : Adagrad(Options()) {}
  explicit Adagrad(const Options& options);

 private:
  Shared Prepare(const Scope& scope, Output learning_rate, Output step) const override;
  void Update(VariableUpdate& update, const Shared& shared) const override;
  const Options options_;
};

// Multiplies the gradient by the ratio of the root mean squares of past updates and past gradients:
//   accumulated_grad = rho * accumulated_grad + (1 - rho) * gradient²
//   delta = sqrt(accumulated_delta + epsilon) / sqrt(accumulated_grad + epsilon) * gradient
//   accumulated_delta = rho * accumulated_delta + (1 - rho) * delta²
//   variable -= learning_rate * delta
// The paper uses a learning rate of 1.
// Source: Zeiler, "ADADELTA: an adaptive learning rate method", 2012; Keras' defaults.
class Adadelta final : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.001;
    double rho = 0.95;
    double epsilon = 1e-7;
  };
  Adadelta() : Adadelta(Options()) {}
  explicit Adadelta(const Options& options);

 private:
  void Update(VariableUpdate& update, const Shared& shared) const override;
  const Options options_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_ADAGRAD_H_
