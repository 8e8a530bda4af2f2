// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_OPTIMIZERS_SGD_H_
#define MIRRORFLOW_TRAIN_OPTIMIZERS_SGD_H_

#include "train/optimizers/optimizer.h"

namespace mirrorflow {

// Plain gradient descent: variable -= learning_rate * gradient.
class GradientDescent final : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.01;
  };
  GradientDescent() : GradientDescent(Options()) {}
  explicit GradientDescent(const Options& o) : Optimizer("GradientDescent", o.learning_rate) {}

 private:
  void Update(VariableUpdate& update, const Shared& shared) const override;
};
using SGD = GradientDescent;

// Gradient descent with momentum:
//   accumulator = momentum * accumulator + gradient
//   variable -= learning_rate * accumulator, or with use_nesterov
//   variable -= learning_rate * (gradient + momentum * accumulator)
// Errors: InvalidArgument from Minimize if `momentum` is outside [0, 1].
class Momentum final : public Optimizer {
 public:
  struct Options {
    LearningRate learning_rate = 0.01;
    double momentum = 0.9;
    bool use_nesterov = false;
  };
  Momentum() : Momentum(Options()) {}
  explicit Momentum(const Options& options);

 private:
  Shared Prepare(const Scope& scope, Output learning_rate, Output step) const override;
  void Update(VariableUpdate& update, const Shared& shared) const override;
  const Options options_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_OPTIMIZERS_SGD_H_
